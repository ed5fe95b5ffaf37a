"""Receiver checks RC-18 to RC-24: a receiver obeys its rate limit and needs bounded memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.feeder import Feeder
from penstock_testing.manual_clock import ManualClock
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject

_BLOCK_MS, _BURST_MS, _BEGIN_MS = 10, 100, 1_000_000
_CONF = {"spark.streaming.blockInterval": f"{_BLOCK_MS}ms", "spark.penstock.receiver.burst": f"{_BURST_MS}ms"}
MAX_RATE = "spark.streaming.receiver.maxRate"
_INITIAL_RATE = "spark.streaming.backpressure.initialRate"
_SMALL_BUFFERS = {"spark.penstock.receiver.maxBufferedRecords": "100", "spark.streaming.blockQueueSize": "1"}
_SETTLE_S = 0.3
_ARRIVE_S = 5.0
_STOP_S = 3.0
# The number of rounds of large records while no block is accepted, and the number of records in each.
_ROUNDS, _ROUND_RECORDS = 4, 1000


class LimitedRun:
    """A receiver on a manual clock, whose source has more records than the rate limit permits."""

    def __init__(self, subject: ReceiverSubject, count: int, conf: Mapping[str, str]) -> None:
        self.subject = subject
        self.clock = ManualClock(_BEGIN_MS)
        self.count = count
        self.feeder = None if subject.suite.feeder is None else subject.feeder()
        self.harness = subject.run(subject.make(self.feeder), self.clock, {**_CONF, **conf})
        self.put(count)
        if conf:
            self.settle()
        if self.feeder is None and not self.advance_until(1):
            raise NotApplicable("the suite has no feeder, and the receiver stores nothing by itself")

    @property
    def elapsed_ms(self) -> int:
        """Time since the start."""
        return self.clock.now_ms() - _BEGIN_MS

    def put(self, count: int) -> None:
        """Put records, if there is a feeder."""
        if self.feeder is not None:
            self.feeder.put(self.feeder.sample(self.subject.rng, count))

    def advance(self, duration_ms: int) -> None:
        """Advance the clock, and let the receiver store the records that the rate limit permits then."""
        self.clock.advance(duration_ms)
        self.settle()

    def advance_until(self, count: int, limit_ms: int = 2000) -> bool:
        """Advance the clock until this many records are stored; return whether they are."""
        return self.subject.advance_until(self.clock, lambda: self.harness.count >= count, _BLOCK_MS, limit_ms)

    def settle(self) -> None:
        """Wait until a store waits for the rate limit, or for 0.3 s if none does."""
        # Two threads wait on the clock: the timer that cuts blocks, and the thread in store.
        with suppress(TimeoutError):
            self.clock.await_waiters(2, self.subject.deadline_s(_SETTLE_S))

    def require(self, allowed: float, what: str) -> None:
        """Fail if more records are stored than allowed."""
        if (stored := self.harness.count) > allowed + 1e-6:
            fail(
                f"the receiver stored {stored} records in {self.elapsed_ms} ms, and {what} permits {allowed:g}",
                f"{self.elapsed_ms} ms",
            )

    def end(self, allowed: float, what: str) -> None:
        """Stop the receiver, which stores its buffered records, and call ``require``."""
        self.subject.finishes(self.harness.stop, _STOP_S)
        self.require(allowed, what)


def _burst(rate: float) -> float:
    return max(1.0, rate * _BURST_MS / 1000)


class ReceiverRateChecks:
    """The checks of this module, as test methods."""

    @check(
        "RC-18", "must", change="store every record by store, store_all or store_arrow, which wait for the rate limit"
    )
    def test_RC_18_stays_under_the_limit(self, subject: ReceiverSubject) -> None:
        """A receiver stores at most rate x time + burst records.

        Purpose: batches finish in time only if no receiver exceeds the rate that the estimator has computed.
        Condition: at each step the receiver has stored at most the permitted number of records, and at least one in
            all.
        """
        for rate in (1, 30, 800):
            what = f"a limit of {rate} records/s"
            limited = LimitedRun(subject, rate + 20, {MAX_RATE: str(rate)})
            for _ in range(4):
                limited.advance(100)
                allowed = _burst(rate) + rate * limited.elapsed_ms / 1000
                limited.require(allowed, what)
            # On a busy machine `settle` may have been too short.
            limited.advance_until(1)
            limited.end(_burst(rate) + rate * limited.elapsed_ms / 1000, what)
            if not limited.harness.count:
                fail(f"with {what} the receiver stored no record; {limited.harness.reports()}")

    @check("RC-19", "must", change="store the first records by store, store_all or store_arrow too")
    def test_RC_19_limit_holds_from_the_first_record(self, subject: ReceiverSubject) -> None:
        """The rate limit holds from the first record on.

        Purpose: the backlog of a source arrives in the first second, before any estimate.
        Condition: the receiver stores at most the burst of 2 records.
        """
        limited = LimitedRun(subject, 200, {_INITIAL_RATE: "20"})
        limited.advance(_BLOCK_MS)
        limited.end(_burst(20) + 20 * limited.elapsed_ms / 1000, "an initial rate of 20 records/s")

    @check("RC-20", "must", change="store by store, store_all or store_arrow only, which wait during a pause")
    def test_RC_20_pause_stops_intake(self, subject: ReceiverSubject) -> None:
        """A paused receiver stores nothing until it is resumed.

        Purpose: the driver pauses receivers when blocks fill the disk.
        Condition: no record is stored during the pause, and all are stored after it.
        """
        limited = LimitedRun(subject, 10, {})
        harness = limited.harness
        limited.advance_until(10)
        harness.pause()
        if limited.feeder is None:
            # A record may have passed the rate limit before the pause.
            limited.settle()
            limited.advance(_BLOCK_MS)
            subject.is_quiet(1)
        before = harness.count
        limited.put(200)
        limited.settle()
        for _ in range(10):
            limited.clock.advance(_BLOCK_MS)
            subject.becomes(lambda: harness.count > before, 0.002)
        if stored := harness.count - before:
            fail(f"the receiver stored {stored} records during a pause", "pause; put(200 records)")
        harness.resume()
        if not limited.advance_until(before + (1 if subject.capabilities.drops else 200)):
            fail(
                f"the receiver stored {harness.count - before} of 200 records after the pause; {harness.reports()}",
                "pause; put(200 records); resume",
            )

    @check("RC-21", "must", change="read rate_limit each time, or override on_rate_change for higher and lower rates")
    def test_RC_21_raise_resumes_intake(self, subject: ReceiverSubject) -> None:
        """A higher rate limit takes effect at once, without a restart.

        Purpose: an estimator lowers the rate in an overload and raises it afterwards.
        Condition: all records are stored, and the receiver has not restarted.
        """
        limited = LimitedRun(subject, 100, {_INITIAL_RATE: "1"})
        limited.advance(_BLOCK_MS)
        starts = limited.harness.starts
        limited.harness.update_rate(None)
        what = "a rate of 1 record/s; put(100 records); no limit"
        if not limited.advance_until(100):
            fail(f"the receiver stored {limited.harness.count} of 100 records after the limit was removed", what)
        if limited.harness.starts > starts:
            fail(f"the receiver restarted when the limit was removed: {limited.harness.ends[-1:]}", what)

    @check(
        "RC-22",
        "must",
        change="rely on store, store_all or store_arrow, which wait; do not save the rate in the receiver",
    )
    def test_RC_22_change_midstream_obeyed(self, subject: ReceiverSubject) -> None:
        """A lower rate limit takes effect at once.

        Purpose: in an overload each additional record delays all later batches.
        Condition: the receiver stores at most the records that both limits permit, each with its burst.
        """
        limited = LimitedRun(subject, 400, {_INITIAL_RATE: "200"})
        limited.advance(100)
        allowed = _burst(200) + 200 * limited.elapsed_ms / 1000
        limited.require(allowed, "a limit of 200 records/s")
        limited.harness.update_rate(20)
        for _ in range(5):
            limited.advance(100)
            allowed += 20 * 0.1
            limited.require(allowed + _burst(20), "a limit of first 200 records/s, then 20 records/s")
        limited.end(allowed + _burst(20), "a limit of first 200 records/s, then 20 records/s")

    @check("RC-23", "must", change="store on the thread that reads, or bound the queue between the two", limit_s=40)
    def test_RC_23_buffers_are_bounded(self, subject: ReceiverSubject) -> None:
        """A receiver takes a bounded number of records while none is accepted.

        Purpose: records that a receiver takes and cannot store fill the memory of the executor.
        Condition: it stops taking records before the last.
        """
        feeder = subject.feeder()
        feeder.taken()
        if subject.capabilities.drops:
            raise NotApplicable("Capabilities.drops is set: RC-24 checks a receiver that drops records")
        harness = subject.harness(subject.make(feeder), conf=_CONF | _SMALL_BUFFERS)
        harness.hold()
        harness.start()
        for number in range(1, _ROUNDS + 1):
            feeder.put(feeder.large(subject.rng, _ROUND_RECORDS))
            # The core's own buffers are full before the end of the first round.
            if not _takes_all(subject, feeder, number * _ROUND_RECORDS):
                return
        fail(
            f"the receiver has taken {feeder.taken()} records while none was accepted",
            f"{_ROUNDS} x put(1,000 large records)",
        )

    @check(
        "RC-24",
        "must",
        limit_s=60,
        change="let store wait for space, or report the number of dropped records as an error",
    )
    def test_RC_24_overflow_is_declared_and_counted(self, subject: ReceiverSubject) -> None:
        """The receiver stores records late that it cannot store at once, or declares and reports their loss.

        Purpose: silently dropped records are noticed when results are already wrong.
        Condition: every record is stored. With ``Capabilities.drops``, the stored records and the dropped ones, whose
            number the receiver reports as errors, add up to the records fed.
        """
        feeder = subject.feeder()
        harness = subject.harness(subject.make(feeder), conf=_CONF | _SMALL_BUFFERS)
        harness.hold()
        harness.start()
        records = feeder.sample(subject.rng, 2000)
        for start in range(0, len(records), 100):
            feeder.put(records[start : start + 100])
        subject.is_quiet(2)
        harness.accept()
        subject.arrives(lambda: harness.count + _dropped(subject, harness), len(records), _ARRIVE_S)
        stored, dropped = harness.count, _dropped(subject, harness)
        if stored + dropped != len(records):
            reported = f" and reported {dropped} as dropped" if subject.capabilities.drops else ""
            fail(
                f"the receiver stored {stored} of {len(records)} records{reported}; {harness.reports()}",
                "hold blocks; 20 x put(100 records); accept blocks",
            )


def _takes_all(subject: ReceiverSubject, feeder: Feeder, count: int) -> bool:
    """Whether the receiver takes this many records before it is idle."""
    while feeder.taken() < count:
        before = feeder.taken()
        # Idle threads may also be those of a machine that is busy elsewhere.
        if subject.is_quiet(_ARRIVE_S) and not subject.becomes(lambda: feeder.taken() != before, 0.2):  # noqa: B023
            return False
    return True


def _dropped(subject: ReceiverSubject, harness: ReceiverHarness) -> int:
    """The sum of the first numbers in the errors that contain ``drop``."""
    if not subject.capabilities.drops:
        return 0
    numbers = [re.search(r"\d+", error.replace(",", "")) for error in harness.errors if "drop" in error]
    return sum(int(number.group()) for number in numbers if number)
