"""Receiver checks RC-10 to RC-17: records are stored completely, unchanged, in order, and promptly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.feeder import Feeder
from penstock_testing.manual_clock import ManualClock
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject

_ARRIVE_S = 5.0
_STOP_S = 3.0
# At least this many polls and connections within 50 ms mean that a receiver spins.
_MANY_POLLS = 50


def _await(subject: ReceiverSubject, harness: ReceiverHarness, count: int) -> None:
    """Wait until this many records are stored, or until none was stored for a while."""
    subject.arrives(lambda: harness.count, count, _ARRIVE_S)


def _key(record: Any) -> Any:
    """A hashable key, equal for equal records of the same type."""
    try:
        hash(record)
    except TypeError:
        return type(record).__name__, repr(record)
    return type(record).__name__, record


def differences(fed: Sequence[Any], stored: Sequence[Any]) -> str:
    """Describe the records that are missing, and those that were not fed or are stored too often; empty if none."""
    wanted, received = Counter(map(_key, fed)), Counter(map(_key, stored))
    missing, extra = list((wanted - received).elements()), list((received - wanted).elements())
    parts = [
        f"{len(keys)} {what}, such as {_shown(keys[0][1])}"
        for what, keys in (("missing", missing), ("stored without being fed, or too often", extra))
        if keys
    ]
    return f"{len(fed)} records fed, {len(stored)} stored: {'; '.join(parts)}" if parts else ""


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


class ReceiverDataChecks:
    """The checks of this module, as test methods."""

    @check(
        "RC-10",
        "must",
        limit_s=60,
        change="store each record that was read once; compare what the code does between two reads",
    )
    def test_RC_10_every_record_arrives(self, subject: ReceiverSubject) -> None:
        """The receiver stores every record of an undisturbed source once.

        Purpose: programs rely on complete input first of all.
        Condition: the stored records equal the records put, as multisets, also after the stop.
        """
        feeder, harness = subject.start()
        records = feeder.sample(subject.rng, 300)
        for start, stop in ((0, 1), (1, 100), (100, 300)):
            feeder.put(records[start:stop])
            _await(subject, harness, stop)
        subject.finishes(harness.stop, _STOP_S)
        if seen := differences(records, harness.records):
            fail(f"{seen}; {harness.reports()}", "put(1 record); put(99 records); put(200 records)")

    @check("RC-11", "must", requires="ordered", change="store from one thread, in the order of the source")
    def test_RC_11_order_kept(self, subject: ReceiverSubject) -> None:
        """The receiver stores the records of a source in the source's order.

        Purpose: programs with state by key need the order of updates.
        Condition: the records are stored in the order in which they were put.
        """
        feeder, harness = subject.start()
        records = feeder.sample(subject.rng, 300)
        start = 0
        while start < len(records):
            size = subject.rng.randrange(1, 41)
            feeder.put(records[start : start + size])
            start += size
        _await(subject, harness, len(records))
        positions = {_key(record): position for position, record in enumerate(records)}
        # RC-10 reports records that are missing or were not fed.
        seen = list(dict.fromkeys(positions[_key(record)] for record in harness.records if _key(record) in positions))
        for before, after in pairwise(seen):
            if before > after:
                fail(
                    f"record number {before}, {_shown(records[before])}, is stored before number {after}",
                    "put(300 records)",
                )

    @check("RC-12", "must", change="decode and split without loss: no strip(), no default encoding, no fixed buffer")
    def test_RC_12_bytes_are_faithful(self, subject: ReceiverSubject) -> None:
        """The receiver stores a record exactly as the source has it.

        Purpose: an empty record, a NUL or a character outside of the Basic Multilingual Plane is legal data.
        Condition: each is stored, equal in value and type.
        """
        feeder, harness = subject.start()
        records = feeder.odd_records()
        feeder.put(records)
        _await(subject, harness, len(records))
        stored = {_key(record) for record in harness.records}
        if missing := [record for record in records if _key(record) not in stored]:
            smallest = min(missing, key=lambda record: len(repr(record)))
            others = [record for record in harness.records if _key(record) not in set(map(_key, records))]
            fail(
                f"{len(missing)} of {len(records)} odd records are not stored unchanged"
                + (f"; the receiver stored {_shown(others[0])} instead" if others else ""),
                f"put([{_shown(smallest)}])",
            )

    @check(
        "RC-13", "must", change="buffer the bytes after the last complete record until more bytes arrive", limit_s=30
    )
    def test_RC_13_boundaries_anywhere(self, subject: ReceiverSubject) -> None:
        """The receiver assembles a record that arrives in pieces, split at any byte.

        Purpose: a byte stream has no boundaries: a read may return any part of a record.
        Condition: each record is stored once, unchanged.
        """
        feeder, harness = subject.start(conf={"spark.streaming.blockInterval": "5ms"})
        records = _split_records(feeder, subject)
        encoded = [feeder.encode(record) for record in records]
        rest = b""
        for number, data in enumerate(encoded):
            cut = (number + 1) % len(data)
            feeder.put_bytes(rest + data[:cut])
            rest = data[cut:]
            _await(subject, harness, number)
            if harness.count < number:
                break
        feeder.put_bytes(rest)
        _await(subject, harness, len(records))
        if seen := differences(records, harness.records):
            number = next((i for i, record in enumerate(records) if harness.records[i : i + 1] != [record]), 0)
            cut = (number + 1) % len(encoded[number])
            fail(seen, f"put_bytes({encoded[number][:cut]!r}); put_bytes({encoded[number][cut:]!r})")
        _end_without_terminator(subject, feeder, harness)

    @check("RC-14", "should", change="limit the size of a record, and report an error for a record above the limit")
    def test_RC_14_oversize_policy_honoured(self, subject: ReceiverSubject) -> None:
        """The receiver treats a record above its size limit as documented, and the stream continues.

        Purpose: one endless record must neither fill the memory nor stop the stream.
        Condition: the first and the last record are stored. With the policy ``stored`` so is the large record; with
            another policy the receiver reports an error.
        """
        feeder, harness = subject.start()
        large, policy = feeder.oversize()
        first, last = feeder.sample(subject.rng, 2)
        feeder.put([first])
        _await(subject, harness, 1)
        feeder.put([large])
        if policy == "error":
            # The error may close the connection: records that were sent on it before would be lost with it.
            subject.becomes(lambda: harness.errors, _ARRIVE_S)
            subject.is_quiet(1)
        feeder.put([last])
        fed = [first, large, last] if policy == "stored" else [first, last]
        _await(subject, harness, len(fed))
        if policy != "stored":
            subject.becomes(lambda: harness.errors, _ARRIVE_S)
        what = f"put([{_shown(large)}]), policy {policy!r}"
        if seen := differences(fed, harness.records):
            fail(seen, what)
        if policy != "stored" and not harness.errors:
            fail("the receiver reported no error for a record above its size limit", what)

    @check("RC-15", "should", change="wait for data, or pause between two polls, instead of polling in a loop")
    def test_RC_15_idle_source_is_quiet(self, subject: ReceiverSubject) -> None:
        """A receiver without data uses almost no processor time.

        Purpose: a receiver shares its host with the jobs that process its records.
        Condition: within 3 s its threads use less than a fifth of a processor in three consecutive windows, at the end
            of which none is ready to run; they make fewer than 50 polls in 50 ms.
        """
        clock = ManualClock()
        feeder = None if subject.suite.feeder is None else subject.feeder()
        # A receiver without a source has nothing to store only if a limit holds it.
        subject.run(subject.make(feeder), clock, {"spark.streaming.receiver.maxRate": "1"} if feeder is None else {})
        if not subject.is_quiet(3):
            fail(
                f"the receiver's threads are busy for {subject.deadline_s(3):g} s, although the source has no data",
                "a source without data",
            )
        if feeder is None:
            return
        try:
            before = feeder.polls()
        except NotApplicable:
            return
        if subject.becomes(lambda: feeder.polls() - before >= _MANY_POLLS, 0.05):
            fail(
                f"the receiver polled {feeder.polls() - before} times within {subject.deadline_s(0.05):g} s",
                "a source without data",
            )

    @check("RC-16", "must", change="continue reading after a read that returned nothing")
    def test_RC_16_wakes_after_idle(self, subject: ReceiverSubject) -> None:
        """The receiver stores a record that follows a quiet period.

        Purpose: most sources are quiet at night.
        Condition: each record is stored within 5 s.
        """
        feeder, harness = subject.start()
        for number, record in enumerate(feeder.sample(subject.rng, 3), 1):
            subject.is_quiet(1)
            feeder.put([record])
            _await(subject, harness, number)
            if harness.count < number:
                fail(
                    f"record {number} is not stored after a quiet period; {harness.reports()}",
                    "put([record])",
                )

    @check("RC-17", "must", change="convert a record of a group as a single record: same value, same type")
    def test_RC_17_single_and_bulk_store_agree(self, subject: ReceiverSubject) -> None:
        """The receiver stores a record in the same form, whether it arrives alone or in a group.

        Purpose: receivers often have one path for a single record and another one for many.
        Condition: the records stored by both are equal in value and type, as multisets.
        """
        feeder, harness = subject.start(conf={"spark.streaming.blockInterval": "5ms"})
        records = feeder.sample(subject.rng, 20)
        for number, record in enumerate(records, 1):
            feeder.put([record])
            _await(subject, harness, number)
        bulk_feeder, bulk = subject.start()
        bulk_feeder.put(records)
        _await(subject, bulk, len(records))
        if seen := differences(harness.records, bulk.records):
            fail(
                f"records that arrive in a group are stored differently from single ones: {seen}",
                "put([record]) 20 times; put(20 records)",
            )


def _split_records(feeder: Feeder, subject: ReceiverSubject) -> list[Any]:
    """Short records; their number exceeds the length of the longest in bytes."""
    sample = [f"{record[:4]}é😀" if isinstance(record, str) else record for record in feeder.sample(subject.rng, 24)]
    longest = max(len(feeder.encode(record)) for record in sample)
    return sample[: longest + 1] if longest < len(sample) else sample


def _end_without_terminator(subject: ReceiverSubject, feeder: Feeder, harness: ReceiverHarness) -> None:
    (last,) = feeder.sample(subject.rng, 1)
    data = feeder.encode(last)
    if not feeder.terminator or not data.endswith(feeder.terminator):
        return
    before = harness.count
    try:
        feeder.put_bytes(data.removesuffix(feeder.terminator))
        feeder.end()
    except NotApplicable:
        return
    _await(subject, harness, before + 1)
    if harness.records[before:] != [last]:
        fail(
            f"after the last record without terminator the receiver stored {harness.records[before:]}, not {[last]}",
            f"put_bytes({data.removesuffix(feeder.terminator)!r}); end()",
        )
