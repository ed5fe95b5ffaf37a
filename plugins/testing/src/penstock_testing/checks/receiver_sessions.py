"""Receiver checks RC-47 to RC-55: sessions with a broker, leases, redelivery, dead letters, and the end of a connect.

Each needs something of the test source; without it the check is not applicable, and the report says so.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.checks.receiver_guarantees import ACKNOWLEDGED_S, NO_RETRIES
from penstock_testing.checks.receiver_rate import MAX_RATE, LimitedRun
from penstock_testing.feeder import Feeder
from penstock_testing.leaks import LeakMeter
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject
from penstock_testing.receiver_workers import ReceiverWorkers

# Leases that pass while nothing is stored. With a real source each takes its time.
_LEASES = 1.5
_RECONNECT_S = 15.0
_STOP_S = 3.0
# Prefetching: the limit in records/s, the number of its seconds that may be in flight, and the number of records put.
_RATE, _SECONDS, _PUT = 20, 2, 500


class ReceiverSessionsChecks:
    """The checks of this module, as test methods."""

    @check(
        "RC-47",
        "must",
        requires="acknowledged",
        limit_s=60,
        change="keep the session with each delivery, and acknowledge in this session only; drop it when it has ended",
    )
    def test_RC_47_acks_in_the_delivering_session(self, subject: ReceiverSubject) -> None:
        """The receiver acknowledges a delivery in the session that delivered it, and nowhere else.

        Purpose: a delivery belongs to its session: in another one its number belongs to another record, or to none, so
            that the source forgets a record that is not stored, or closes the connection again and again.
        Condition: all records are stored and acknowledged within 15 s, and the source has refused no acknowledgement.
        """
        feeder = subject.feeder()
        feeder.refused_acknowledgements()
        records = feeder.sample(subject.rng, 10)
        harness = _run_held(subject, feeder, records[:5])
        feeder.cut()
        feeder.heal()
        feeder.put(records[5:])
        harness.accept()
        _until_acknowledged(subject, feeder, harness, records)
        if refused := feeder.refused_acknowledgements():
            fail(
                f"the source refused {refused} acknowledgements, of deliveries that its session does not have; "
                f"{harness.reports()}",
                "five records in flight, a cut, five records",
            )

    @check(
        "RC-48",
        "must",
        requires="acknowledged",
        limit_s=180,
        change="extend leases, or poll while the consumer is paused, on another thread than the one that stores",
    )
    def test_RC_48_long_pause_repeats_nothing(self, subject: ReceiverSubject) -> None:
        """The receiver keeps its leases and its membership while it may not store, for longer than a lease.

        Purpose: batches may be late for longer than a lease, a visibility timeout or a poll interval: without a sign of
            life the source delivers everything again, or expels the receiver, which makes them later still.
        Condition: each record is stored once, and the receiver reports no error.
        """
        feeder = subject.feeder()
        lease_s = _lease_s(feeder)
        records = feeder.sample(subject.rng, 40)
        harness = subject.run(subject.make(feeder))
        feeder.put(records[:1])
        subject.until_stored(harness, records[:1], _RECONNECT_S)
        for name, start, stop in (("pause", 1, 20), ("hold", 20, 40)):
            waiting = getattr(harness, name)
            waiting()
            offers = harness.offers
            feeder.put(records[start:stop])
            # During a pause no block is offered: its store waits for the rate limit.
            subject.becomes(lambda before=offers: harness.offers > before, 5 if name == "hold" else 0.2)  # type: ignore[misc]
            feeder.pass_time(_LEASES * lease_s)
            (harness.resume if name == "pause" else harness.accept)()
            subject.until_stored(harness, records[:stop], _RECONNECT_S)
        # Messages that expired meanwhile would be delivered now.
        feeder.pass_time(lease_s)
        subject.is_quiet(1)
        what = f"a pause of the rate limit, and a driver that does not answer, for {_LEASES} leases each"
        if repeated := _repeated(harness.records):
            fail(
                f"{len(repeated)} of {len(records)} records are stored more than once; {harness.reports()}",
                what,
            )
        if harness.errors:
            fail(f"the receiver reported errors: {harness.errors[:3]}", what)

    @check(
        "RC-49",
        "must",
        requires="acknowledged",
        limit_s=120,
        change="let a heartbeat confirm only what is stored: the last stored position, or none",
    )
    def test_RC_49_keepalive_confirms_nothing(self, subject: ReceiverSubject) -> None:
        """A sign of life does not confirm what is not stored.

        Purpose: a heartbeat that also confirms a position confirms records that are not stored, which are lost with the
            process.
        Condition: none of the five is acknowledged while they are held, and the new receiver stores them.
        """
        feeder = subject.feeder()
        lease_s = _lease_s(feeder)
        records = feeder.sample(subject.rng, 6)
        harness = subject.run(subject.make(feeder), conf=NO_RETRIES)
        feeder.put(records[:1])
        _until_acknowledged(subject, feeder, harness, records[:1])
        harness.hold()
        offers = harness.offers
        feeder.put(records[1:])
        subject.until(lambda: harness.offers > offers, "the receiver stored no further record")
        feeder.pass_time(_LEASES * lease_s)
        if confirmed := Counter(feeder.acknowledged()) - Counter(records[:1]):
            fail(
                f"after {_LEASES} leases the receiver has confirmed {confirmed.total()} records that are not stored: "
                f"{list(confirmed)[:3]}",
                f"five records, neither accepted nor refused for {_LEASES} leases",
            )
        harness.refuse()
        harness.stop()
        successor = subject.run(subject.make(feeder))
        subject.until_stored(successor, records[1:], _RECONNECT_S + lease_s)

    @check(
        "RC-50",
        "should",
        requires="acknowledged",
        change="call report_source after each poll, also one that returned nothing",
    )
    def test_RC_50_idle_source_reports_status(self, subject: ReceiverSubject) -> None:
        """The receiver reports the status of its source while the source is idle, too.

        Purpose: an old lag looks like a problem, and a receiver that does nothing looks like one that is dead.
        Condition: reports follow within 10 s, the last with a lag of 0 or unknown, and the record is stored and
            acknowledged.
        """
        feeder, harness = subject.start()
        records = feeder.sample(subject.rng, 3)
        feeder.put(records[:2])
        _until_acknowledged(subject, feeder, harness, records[:2])
        if not subject.becomes(lambda: harness.source_reports, 2):
            raise NotApplicable("the receiver reports no status of its source: it does not call report_source")
        before = harness.source_reports
        # One report may belong to the records.
        subject.until(
            lambda: harness.source_reports > before + 1,
            "the receiver reports no status of its source while that is idle",
            10,
        )
        subject.until(
            lambda: harness.source_status is not None and harness.source_status.lag_messages in {0, None},
            lambda: f"the source has no further record, and the receiver reports {harness.source_status}",
            10,
        )
        feeder.put(records[2:])
        _until_acknowledged(subject, feeder, harness, records)

    @check(
        "RC-51",
        "must",
        requires="acknowledged",
        limit_s=90,
        change="finish or give up what is in flight before another instance gets it; claim only what has expired",
    )
    def test_RC_51_rebalance_neither_loses_nor_repeats(self, subject: ReceiverSubject) -> None:
        """When instances join and leave, every record is stored, and none again unless that is declared.

        Purpose: receivers join and leave whenever executors do; what moves from one to another is easily lost, or
            stored by both.
        Condition: the two store every record, and none of them twice; with ``Capabilities.repeats_in_rebalance`` those
            in flight when an instance joined or left may be repeated.
        """
        feeder = subject.feeder()
        if not feeder.rebalances:
            feeder.unable("rebalances")
        records = feeder.sample(subject.rng, 30)
        first = subject.run(subject.make(feeder, index=0, count=2), conf=NO_RETRIES)
        feeder.put(records[:6])
        _until_acknowledged(subject, feeder, first, records[:6])
        # The second instance joins while the first one has records in flight.
        first.hold()
        offers = first.offers
        feeder.put(records[6:12])
        subject.until(lambda: first.offers > offers, "the receiver stored no further record")
        second = subject.run(subject.make(feeder, index=1, count=2), conf=NO_RETRIES)
        feeder.put(records[12:18])
        subject.becomes(lambda: second.count, 10)
        held = first.count
        first.accept()
        # The held block is accepted before others are refused.
        subject.becomes(lambda: first.count > held)
        _until_all_stored(subject, [first, second], records[:18])
        # The first one leaves with records in flight, which it cannot store.
        first.refuse()
        feeder.put(records[18:24])
        subject.becomes(lambda: first.offers > offers + 1, 2)
        first.stop()
        feeder.put(records[24:])
        _until_all_stored(subject, [first, second], records)
        in_flight = set(map(repr, records[6:24])) if subject.capabilities.repeats_in_rebalance else set()
        repeated = [each for each in _repeated([*first.records, *second.records]) if repr(each) not in in_flight]
        if repeated:
            fail(
                f"{len(repeated)} of {len(records)} records are stored more than once, such as {repeated[:3]}",
                "a second instance joins while records are in flight, and the first one leaves",
            )

    @check(
        "RC-52",
        "must",
        requires="acknowledged",
        limit_s=60,
        change="remember what is stored, not what was fetched; after a reconnect take what is not acknowledged again",
    )
    def test_RC_52_reconnect_resumes_what_was_in_flight(self, subject: ReceiverSubject) -> None:
        """After a reconnect the receiver stores what was in flight, and not more than once again.

        Purpose: a client reconnects by itself; what it had fetched and not stored is easily taken for done, or left to
            a session that no longer exists.
        Condition: all records are stored and acknowledged within 15 s; the ten at most twice, the two once.
        """
        if not subject.capabilities.reconnects:
            raise NotApplicable("Capabilities.reconnects is not set")
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 12)
        harness = subject.run(subject.make(feeder))
        feeder.put(records[:2])
        _until_acknowledged(subject, feeder, harness, records[:2])
        harness.hold()
        offers = harness.offers
        feeder.put(records[2:])
        subject.until(lambda: harness.offers > offers, "the receiver stored no further record")
        feeder.cut()
        feeder.heal()
        harness.accept()
        _until_acknowledged(subject, feeder, harness, records)
        counts = Counter(map(repr, harness.records))
        most = {repr(record): 1 if record in records[:2] else 2 for record in records}
        if repeated := [text for text, count in counts.items() if count > most.get(text, 0)]:
            fail(
                f"{len(repeated)} records are stored more often than a reconnect explains, such as {repeated[:3]}",
                "two records; ten in flight, a cut",
            )

    @check(
        "RC-53",
        "must",
        requires="acknowledged",
        limit_s=60,
        change="publish the record with its headers and the reason, then acknowledge it, and count it in report_source",
    )
    def test_RC_53_poison_record_becomes_dead_letter(self, subject: ReceiverSubject) -> None:
        """A record that cannot be decoded becomes a dead letter, with its headers and the reason, and is counted.

        Purpose: a record that nobody can decode is delivered again for ever and blocks those behind it, or disappears.
        Condition: the good records are stored and acknowledged. There is one dead letter, with the value and the
            headers of the bad record and a reason; the reported status counts it.
        """
        feeder = subject.feeder()
        feeder.dead_letters()
        before, after, last = feeder.sample(subject.rng, 3)
        harness = subject.run(subject.make(feeder))
        feeder.put([before])
        bad = feeder.put_bad()
        feeder.put([after])
        what = "a good, a bad, a good record"
        _until_acknowledged(subject, feeder, harness, [before, after])
        subject.until(feeder.dead_letters, lambda: f"there is no dead letter; {harness.reports()}", ACKNOWLEDGED_S)
        (letter,) = feeder.dead_letters()[:1]
        if not letter.reason.strip():
            fail(f"the dead letter {letter} has no reason", what)
        if bad is not None and letter.message.value != bad.value:
            fail(f"the dead letter has the value {letter.message.value!r}, and the record has {bad.value!r}", what)
        if bad is not None and (lost := dict(bad.headers.items() - letter.message.headers.items())):
            fail(f"the dead letter lacks the headers {lost} of the record", what)
        if harness.source_reports:
            subject.until(
                lambda: harness.source_status is not None and harness.source_status.dead_letters == 1,
                lambda: f"the receiver reports {harness.source_status}, and there is one dead letter",
            )
        harness.stop()
        successor = subject.run(subject.make(feeder))
        feeder.put([last])
        _until_acknowledged(subject, feeder, successor, [last])
        if (count := len(feeder.dead_letters())) > 1:
            fail(f"one bad record became {count} dead letters", f"{what}, a new receiver")

    @check(
        "RC-54",
        "should",
        requires="acknowledged",
        limit_s=60,
        change="fetch at most fetch_hint(most) records, and set the client's prefetch limit accordingly",
    )
    def test_RC_54_prefetch_follows_the_limit(self, subject: ReceiverSubject) -> None:
        """The rate limit bounds the messages in flight, not the backlog of the source.

        Purpose: records that wait in the receiver for the rate limit use up their leases, are lost to other receivers,
            and fill the memory.
        Condition: at most 40 records are in flight, those of two seconds.
        """
        subject.feeder().in_flight()
        limited = LimitedRun(subject, _PUT, {MAX_RATE: str(_RATE)})
        feeder, bound = limited.feeder, _RATE * _SECONDS
        assert feeder is not None
        subject.becomes(feeder.in_flight)
        most = 0
        for _ in range(5):
            limited.advance(100)
            subject.becomes(lambda: feeder.in_flight() > bound, 0.05)
            most = max(most, feeder.in_flight())
        if most > bound:
            fail(
                f"{most} records are in flight, and a limit of {_RATE} records/s permits {bound} in {_SECONDS} s",
                f"put({_PUT} records), a limit of {_RATE} records/s",
            )

    @check(
        "RC-55",
        "must",
        limit_s=60,
        change="make the client visible to onStop before it connects; after the connect look whether the receiver was "
        "stopped, and close the client in any case",
    )
    def test_RC_55_stop_while_connecting_leaves_nothing(self, subject: ReceiverSubject) -> None:
        """A stop that comes while the receiver connects ends it, and releases the connection.

        Purpose: a stop is as likely while a receiver connects as later; a client that is not closed then keeps its
            connection, and its threads, for the life of the executor.
        Condition: within 3 s of the answer the stop and the receiver's threads have ended; no thread, process,
            descriptor or temporary file remains.
        """
        # A library may open some resources once for the process.
        _stop_while_connecting(subject)
        subject.leak_meter.leaks(subject.deadline_s(0.5))
        meter = LeakMeter()
        threads = _stop_while_connecting(subject)
        if leaks := [*threads, *meter.leaks(subject.deadline_s(2))]:
            fail("; ".join(dict.fromkeys(leaks)), "a stop before the source answers, then its answer")


def _lease_s(feeder: Feeder) -> float:
    if feeder.lease_s is None:
        feeder.unable("lease_s")
    return feeder.lease_s


def _run_held(subject: ReceiverSubject, feeder: Feeder, records: list[Any]) -> ReceiverHarness:
    """Run a receiver whose blocks are held, and put records; return the harness once a block is offered."""
    harness = subject.harness(subject.make(feeder))
    harness.hold()
    harness.start()
    feeder.put(records)
    subject.until(lambda: harness.offers, "the receiver stored no record")
    return harness


def _until_acknowledged(subject: ReceiverSubject, feeder: Feeder, harness: ReceiverHarness, records: list[Any]) -> None:
    """Wait until these records are stored and acknowledged."""
    subject.until_stored(harness, records, _RECONNECT_S)

    def missing() -> int:
        return (Counter(records) - Counter(feeder.acknowledged())).total()

    subject.until(
        lambda: not missing(),
        lambda: (
            f"the receiver acknowledged {len(records) - missing()} of {len(records)} stored records; "
            f"{harness.reports()}"
        ),
        ACKNOWLEDGED_S,
    )


def _until_all_stored(subject: ReceiverSubject, runs: Sequence[ReceiverHarness], records: list[Any]) -> None:
    """Wait until instances together have stored these records."""

    def missing() -> list[Any]:
        stored = Counter(record for run in runs for record in run.records)
        return list((Counter(records) - stored).elements())

    subject.until(
        lambda: not missing(),
        lambda: (
            f"{len(missing())} of {len(records)} records are not stored, the first is {missing()[:1]}; "
            + "; ".join(run.reports() for run in runs)
        ),
        _RECONNECT_S,
    )


def _repeated(records: list[Any]) -> list[Any]:
    """The records that occur more than once."""
    return [record for record, count in Counter(records).items() if count > 1]


def _stop_while_connecting(subject: ReceiverSubject) -> list[str]:
    """Stop a receiver before its source answers, let the source answer; return its threads that do not end."""
    feeder = subject.feeder()
    feeder.pause()
    harness = subject.harness(subject.make(feeder))
    workers: ReceiverWorkers = subject.enter(ReceiverWorkers(harness.receiver))
    subject.finishes(harness.start, _STOP_S)  # RC-02 reports an onStart that waits
    try:
        subject.becomes(lambda: feeder.polls(), 2)
    except NotApplicable:
        subject.is_quiet(1)
    has_ended = threading.Event()

    def stop() -> None:
        with suppress(TimeoutError):
            harness.stop()
            has_ended.set()

    threading.Thread(target=stop, name=f"penstock kit {subject.check.id} stop", daemon=True).start()
    subject.becomes(harness.receiver.isStopped, _STOP_S)
    feeder.heal()
    if not has_ended.wait(subject.deadline_s(_STOP_S)):
        fail(
            f"the receiver has not ended {subject.deadline_s(_STOP_S):g} s after its stop",
            "a stop before the source answers, then its answer",
        )
    subject.becomes(lambda: not workers.alive_threads(), _STOP_S)
    threads = [f"{thread} is alive" for thread in workers.alive_threads()]
    subject.close()
    return threads
