"""Receiver checks RC-10 to RC-17: every record arrives as it is, once, in order, soon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from penstock.runtime.clock import ManualClock
from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.feeder import Feeder
from penstock.testing.kit import ReceiverKit
from penstock.testing.receiver_harness import ReceiverHarness

_ARRIVE_S = 5.0
_STOP_S = 3.0
# Polls and connections of a receiver that spins, at least, while it is seen to be idle otherwise.
_MANY_POLLS = 50


def _await(kit: ReceiverKit, harness: ReceiverHarness, count: int) -> None:
    """Wait until this many records are stored, or no more arrive."""
    kit.arrives(lambda: harness.count, count, _ARRIVE_S)


def _key(record: Any) -> Any:
    """Equal for equal records of the same type."""
    try:
        hash(record)
    except TypeError:
        return type(record).__name__, repr(record)
    return type(record).__name__, record


def differences(fed: Sequence[Any], stored: Sequence[Any]) -> str:
    """What is missing and what is stored without being fed, or more often; empty if nothing."""
    wanted, found = Counter(map(_key, fed)), Counter(map(_key, stored))
    missing, extra = list((wanted - found).elements()), list((found - wanted).elements())
    parts = [
        f"{len(keys)} {what}, such as {_shown(keys[0][1])}"
        for what, keys in (("missing", missing), ("stored without being fed, or too often", extra))
        if keys
    ]
    return f"{len(fed)} records fed, {len(stored)} stored: {'; '.join(parts)}" if parts else ""


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


@check("RC-10", "must", change="store each record that was read, once; look at what happens between two reads")
def every_record_arrives(kit: ReceiverKit) -> None:
    """Every record of a calm source is stored, once.

    Purpose: the first thing that a program relies on.
    Method: put 300 records in groups of 1, 99 and 200, each while the receiver runs; stop it when they are stored.
    Condition: what is stored, as a multiset, is what was put; nothing follows until the stop is complete.
    Requires: a feeder.
    """
    feeder, harness = kit.start()
    records = feeder.sample(kit.rng, 300)
    for start, stop in ((0, 1), (1, 100), (100, 300)):
        feeder.put(records[start:stop])
        _await(kit, harness, stop)
    kit.finishes(harness.stop, _STOP_S)
    if seen := differences(records, harness.records):
        fail(f"{seen}; errors: {harness.errors[-2:]}", "put(1 record); put(99 records); put(200 records)")


@check("RC-11", "must", requires="ordered", change="store from one thread, in the order of the source")
def order_kept(kit: ReceiverKit) -> None:
    """The records of a source are stored in its order.

    Purpose: programs that keep state by key need the order of updates.
    Method: put 300 records in groups of 1 to 40; compare the order of those that are stored.
    Condition: they are in the order in which they were put.
    Requires: a feeder; ``Capabilities.ordered``.
    """
    feeder, harness = kit.start()
    records = feeder.sample(kit.rng, 300)
    start = 0
    while start < len(records):
        size = kit.rng.randrange(1, 41)
        feeder.put(records[start : start + size])
        start += size
    _await(kit, harness, len(records))
    positions = {_key(record): position for position, record in enumerate(records)}
    # A record that is missing, or that was not fed, is a matter of RC-10.
    seen = list(dict.fromkeys(positions[_key(record)] for record in harness.records if _key(record) in positions))
    for before, after in pairwise(seen):
        if before > after:
            fail(f"record {_shown(records[before])} (number {before}) is stored before number {after}", "put(records)")


@check("RC-12", "must", change="decode and split without loss: no strip(), no default encoding, no fixed buffer")
def bytes_are_faithful(kit: ReceiverKit) -> None:
    """A record is stored exactly as the source has it.

    Purpose: an empty record, a NUL or a character outside the basic plane is data like any other.
    Method: put the feeder's odd records, which are all legal, one after the other.
    Condition: each is stored, equal in value and type.
    Requires: a feeder.
    """
    feeder, harness = kit.start()
    records = feeder.odd_records()
    feeder.put(records)
    _await(kit, harness, len(records))
    stored = {_key(record) for record in harness.records}
    if missing := [record for record in records if _key(record) not in stored]:
        smallest = min(missing, key=lambda record: len(repr(record)))
        others = [record for record in harness.records if _key(record) not in set(map(_key, records))]
        fail(
            f"{len(missing)} of {len(records)} odd records are not stored"
            + (f"; stored instead: {_shown(others[0])}" if others else ""),
            f"put([{_shown(smallest)}])",
        )


@check("RC-13", "must", change="keep what follows the last whole record until more bytes come", limit_s=30)
def boundaries_anywhere(kit: ReceiverKit) -> None:
    """A record may arrive in pieces, cut at any byte.

    Purpose: a byte stream has no boundaries: a read returns any part of a record.
    Method: send bytes that end inside a record, at each of its offsets in turn; each piece also completes the record
        before it, whose arrival proves that the piece was read. Then end the source after a record without its
        terminator, if the feeder has terminator and end.
    Condition: each record is stored once, unchanged.
    Requires: a feeder with put_bytes and encode.
    """
    feeder, harness = kit.start(conf={"spark.streaming.blockInterval": "5ms"})
    records = _split_records(feeder, kit)
    encoded = [feeder.encode(record) for record in records]
    rest = b""
    for number, data in enumerate(encoded):
        cut = (number + 1) % len(data)
        feeder.put_bytes(rest + data[:cut])
        rest = data[cut:]
        _await(kit, harness, number)
        if harness.count < number:
            break
    feeder.put_bytes(rest)
    _await(kit, harness, len(records))
    if seen := differences(records, harness.records):
        number = next((i for i, each in enumerate(records) if harness.records[i : i + 1] != [each]), 0)
        cut = (number + 1) % len(encoded[number])
        fail(seen, f"put_bytes({encoded[number][:cut]!r}); put_bytes({encoded[number][cut:]!r})")
    _end_without_terminator(kit, feeder, harness)


def _split_records(feeder: Feeder, kit: ReceiverKit) -> list[Any]:
    """Short records, more of them than the longest has bytes."""
    sample = [f"{each[:4]}é😀" if isinstance(each, str) else each for each in feeder.sample(kit.rng, 24)]
    longest = max(len(feeder.encode(each)) for each in sample)
    return sample[: longest + 1] if longest < len(sample) else sample


def _end_without_terminator(kit: ReceiverKit, feeder: Feeder, harness: ReceiverHarness) -> None:
    (last,) = feeder.sample(kit.rng, 1)
    data = feeder.encode(last)
    if not feeder.terminator or not data.endswith(feeder.terminator):
        return
    before = harness.count
    try:
        feeder.put_bytes(data.removesuffix(feeder.terminator))
        feeder.end()
    except NotApplicable:
        return
    _await(kit, harness, before + 1)
    if harness.records[before:] != [last]:
        fail(
            f"after the last record without terminator, {harness.records[before:]} is stored",
            f"put_bytes({data.removesuffix(feeder.terminator)!r}); end()",
        )


@check("RC-14", "should", change="bound the size of a record, and do what the documentation says beyond it")
def oversize_policy_honoured(kit: ReceiverKit) -> None:
    """A record above the size limit is treated as documented, and the stream continues.

    Purpose: one record without an end must neither fill the memory nor stop the stream.
    Method: put a record, one above the limit, and another record.
    Condition: both others are stored; the large one is too if the policy is ``stored``; otherwise an error is reported.
    Requires: a feeder with oversize.
    """
    feeder, harness = kit.start()
    large, policy = feeder.oversize()
    first, last = feeder.sample(kit.rng, 2)
    feeder.put([first])
    _await(kit, harness, 1)
    feeder.put([large])
    if policy == "error":
        # What follows on a connection that ends with the error is lost with it.
        kit.becomes(lambda: harness.errors, _ARRIVE_S)
        kit.is_quiet(1)
    feeder.put([last])
    fed = [first, large, last] if policy == "stored" else [first, last]
    _await(kit, harness, len(fed))
    if policy != "stored":
        kit.becomes(lambda: harness.errors, _ARRIVE_S)
    what = f"put([{_shown(large)}]), policy {policy!r}"
    if seen := differences(fed, harness.records):
        fail(seen, what)
    if policy != "stored" and not harness.errors:
        fail("no error is reported", what)


@check("RC-15", "should", change="wait for data, or pause between two polls, instead of asking at once again")
def idle_source_is_quiet(kit: ReceiverKit) -> None:
    """A receiver without data needs no processor time.

    Purpose: a receiver shares its host with the jobs that process its records.
    Method: start it with a clock that stands, on a source without data, or, without a feeder, with a rate limit of
        1 record/s; measure the processor time of its threads, and the polls if the feeder counts them, in windows of
        20 ms.
    Condition: within 3 s there are three windows in a row with less than a fifth of a processor.
    Requires: nothing.
    """
    clock = ManualClock()
    feeder = None if kit.subject.feeder is None else kit.feeder()
    # A receiver without a source has nothing to store only if a limit holds it.
    kit.run(kit.make(feeder), clock, {"spark.streaming.receiver.maxRate": "1"} if feeder is None else {})
    if not kit.is_quiet(3):
        fail("its threads are busy although there is no data", "a source without data")
    if feeder is None:
        return
    try:
        before = feeder.polls()
    except NotApplicable:
        return
    if kit.becomes(lambda: feeder.polls() - before >= _MANY_POLLS, 0.05):
        fail(f"it asked {feeder.polls() - before} times for data within {kit.deadline_s(0.05):g} s", "no data")


@check("RC-16", "must", change="keep reading after a read that found nothing")
def wakes_after_idle(kit: ReceiverKit) -> None:
    """A record that follows a quiet period is stored.

    Purpose: most sources are quiet at night.
    Method: three times: wait until the receiver is idle, put a record.
    Condition: each record is stored within 5 s.
    Requires: a feeder.
    """
    feeder, harness = kit.start()
    for number, record in enumerate(feeder.sample(kit.rng, 3), 1):
        kit.is_quiet(1)
        feeder.put([record])
        _await(kit, harness, number)
        if harness.count < number:
            fail(f"record {number} is not stored after a quiet period; errors: {harness.errors[-2:]}", "put([record])")


@check("RC-17", "must", change="treat a record of a group as one that comes alone: same form, same type")
def single_and_bulk_store_agree(kit: ReceiverKit) -> None:
    """A record is stored the same, whether it comes alone or in a group.

    Purpose: receivers often have one path for a single record and another one for many.
    Method: put 20 records one by one, each after the one before is stored; put the same ones at once to a new receiver
        on a new source.
    Condition: both times the stored records, as multisets, are equal in value and type.
    Requires: a feeder.
    """
    feeder, harness = kit.start(conf={"spark.streaming.blockInterval": "5ms"})
    records = feeder.sample(kit.rng, 20)
    for number, record in enumerate(records, 1):
        feeder.put([record])
        _await(kit, harness, number)
    bulk_feeder, bulk = kit.start()
    bulk_feeder.put(records)
    _await(kit, bulk, len(records))
    if seen := differences(harness.records, bulk.records):
        fail(f"what is stored differs: alone against in a group: {seen}", "put([record]) 20 times; put(20 records)")
