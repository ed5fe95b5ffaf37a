"""Receiver checks RC-18 to RC-24: a receiver obeys its rate limit and needs bounded memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from penstock.runtime.clock import ManualClock
from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.feeder import Feeder
from penstock.testing.kit import ReceiverKit
from penstock.testing.receiver_harness import ReceiverHarness

_BLOCK_MS, _BURST_MS, _BEGIN_MS = 10, 100, 1_000_000
_CONF = {"spark.streaming.blockInterval": f"{_BLOCK_MS}ms", "spark.penstock.receiver.burst": f"{_BURST_MS}ms"}
_MAX_RATE = "spark.streaming.receiver.maxRate"
_INITIAL_RATE = "spark.streaming.backpressure.initialRate"
_SMALL_BUFFERS = {"spark.penstock.receiver.maxBufferedRecords": "100", "spark.streaming.blockQueueSize": "1"}
_SETTLE_S = 0.3
_ARRIVE_S = 5.0
_STOP_S = 3.0
# Rounds of large records that an unbounded receiver takes while nothing is accepted, and records in each.
_ROUNDS, _ROUND_RECORDS = 4, 1000


class _Limited:
    """A receiver on a manual clock, with more records than its rate limit lets pass.

    Raises:
        NotApplicable: the suite has no feeder, and the receiver stores nothing by itself.
    """

    def __init__(self, kit: ReceiverKit, count: int, conf: Mapping[str, str]) -> None:
        self.kit, self.clock, self.count = kit, ManualClock(_BEGIN_MS), count
        self.feeder = None if kit.subject.feeder is None else kit.feeder()
        self.harness = kit.run(kit.make(self.feeder), self.clock, {**_CONF, **conf})
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
            self.feeder.put(self.feeder.sample(self.kit.rng, count))

    def advance(self, duration_ms: int) -> None:
        """Move the clock, and let the receiver store what it may then."""
        self.clock.advance(duration_ms)
        self.settle()

    def advance_until(self, count: int, limit_ms: int = 2000) -> bool:
        """Move the clock until this many records are stored; return whether they are."""
        return self.kit.advance_until(self.clock, lambda: self.harness.count >= count, _BLOCK_MS, limit_ms)

    def settle(self) -> None:
        """Wait until a store waits for the rate limit, or for a moment if none does."""
        # Two wait on the clock: the timer that cuts blocks, and the store.
        with suppress(TimeoutError):
            self.clock.await_waiters(2, self.kit.deadline_s(_SETTLE_S))

    def require(self, allowed: float, what: str) -> None:
        """Fail if more records are stored than allowed."""
        if (stored := self.harness.count) > allowed + 1e-6:
            fail(f"{stored} records are stored, and at most {allowed:g} may be: {what}", f"{self.elapsed_ms} ms")

    def end(self, allowed: float, what: str) -> None:
        """Stop the receiver, which stores what has passed the rate limit, and require as before."""
        self.kit.finishes(self.harness.stop, _STOP_S)
        self.require(allowed, what)


def _burst(rate: float) -> float:
    return max(1.0, rate * _BURST_MS / 1000)


@check("RC-18", "must", change="store every record by store, store_all or store_arrow, which wait for the rate limit")
def stays_under_the_limit(kit: ReceiverKit) -> None:
    """A receiver stores at most rate x time + burst records.

    Purpose: batches finish in time only if no receiver exceeds the rate that the estimator has computed.
    Method: with a limit of 1, 30 and 800 records/s, a burst of 100 ms and more records than may pass, move a manual
        clock by 4 x 100 ms and stop the receiver.
    Condition: at each step no more records are stored than the limit allows, and some are.
    Requires: a feeder, or a receiver that needs none.
    """
    for rate in (1, 30, 800):
        what = f"a limit of {rate} records/s"
        limited = _Limited(kit, rate + 20, {_MAX_RATE: str(rate)})
        for _ in range(4):
            limited.advance(100)
            allowed = _burst(rate) + rate * limited.elapsed_ms / 1000
            limited.require(allowed, what)
        limited.end(allowed, what)
        if not limited.harness.count:
            fail(f"no record is stored with {what}; errors: {limited.harness.errors[-2:]}")


@check("RC-19", "must", change="store the first records by store, store_all or store_arrow too")
def limit_holds_from_the_first_record(kit: ReceiverKit) -> None:
    """The rate limit holds from the first record on.

    Purpose: the backlog of a source arrives in the first second, before any estimate.
    Method: with an initial rate of 20 records/s, a burst of 100 ms and 200 records, start the receiver, move the clock
        by 10 ms, and stop it.
    Condition: no more than the burst, 2 records, are stored.
    Requires: a feeder, or a receiver that needs none.
    """
    limited = _Limited(kit, 200, {_INITIAL_RATE: "20"})
    limited.advance(_BLOCK_MS)
    limited.end(_burst(20) + 20 * limited.elapsed_ms / 1000, "an initial rate of 20 records/s")


@check("RC-20", "must", change="store by store, store_all or store_arrow only, which wait during a pause")
def pause_stops_intake(kit: ReceiverKit) -> None:
    """A paused receiver stores nothing, and continues once it resumes.

    Purpose: the driver pauses receivers when blocks fill the disk.
    Method: put 10 records, pause when they are stored, put 200 more, move the clock by 10 block intervals; resume.
    Condition: nothing is stored between pause and resume, and all are stored after.
    Requires: a feeder, or a receiver that needs none.
    """
    limited = _Limited(kit, 10, {})
    harness = limited.harness
    limited.advance_until(10)
    harness.pause()
    if limited.feeder is None:
        # A record may have passed the rate limit before.
        limited.settle()
        limited.advance(_BLOCK_MS)
        kit.is_quiet(1)
    before = harness.count
    limited.put(200)
    limited.settle()
    for _ in range(10):
        limited.clock.advance(_BLOCK_MS)
        kit.becomes(lambda: harness.count > before, 0.002)
    if stored := harness.count - before:
        fail(f"{stored} records are stored while the receiver is paused", "pause; put(200 records)")
    harness.resume()
    if not limited.advance_until(before + (1 if kit.capabilities.drops else 200)):
        fail(
            f"{harness.count - before} of 200 records are stored after the pause; errors: {harness.errors[-2:]}",
            "pause; put(200 records); resume",
        )


@check("RC-21", "must", change="ask for rate_limit each time, or adapt in on_rate_change, in both directions")
def raise_resumes_intake(kit: ReceiverKit) -> None:
    """A higher rate limit takes effect at once, without a restart.

    Purpose: an estimator lowers the rate in an overload and raises it afterwards.
    Method: with a rate of 1 record/s and 100 records, remove the limit; move the clock by 2 s at most.
    Condition: all records are stored, and the receiver has not restarted.
    Requires: a feeder, or a receiver that needs none.
    """
    limited = _Limited(kit, 100, {_INITIAL_RATE: "1"})
    limited.advance(_BLOCK_MS)
    starts = limited.harness.starts
    limited.harness.update_rate(None)
    what = "a rate of 1 record/s; put(100 records); no limit"
    if not limited.advance_until(100):
        fail(f"{limited.harness.count} of 100 records are stored after the limit has gone", what)
    if limited.harness.starts > starts:
        fail(f"it has restarted: {limited.harness.ends[-1:]}", what)


@check("RC-22", "must", change="let store, store_all or store_arrow wait, and remember no rate of your own")
def change_midstream_obeyed(kit: ReceiverKit) -> None:
    """A lower rate limit holds from the moment it is set.

    Purpose: in an overload each record too many is a delay of every batch that follows.
    Method: with a rate of 200 records/s and 400 records, move the clock by 100 ms, set 20 records/s, move it by 5 x
        100 ms, and stop the receiver.
    Condition: no more records are stored than both limits allow, each with its burst.
    Requires: a feeder, or a receiver that needs none.
    """
    limited = _Limited(kit, 400, {_INITIAL_RATE: "200"})
    limited.advance(100)
    allowed = _burst(200) + 200 * limited.elapsed_ms / 1000
    limited.require(allowed, "200 records/s")
    limited.harness.update_rate(20)
    for _ in range(5):
        limited.advance(100)
        allowed += 20 * 0.1
        limited.require(allowed + _burst(20), "first 200 records/s, then 20 records/s")
    limited.end(allowed + _burst(20), "first 200 records/s, then 20 records/s")


@check("RC-23", "must", change="store on the thread that reads, or bound the queue between the two", limit_s=40)
def buffers_are_bounded(kit: ReceiverKit) -> None:
    """A receiver takes a bounded number of records while none is accepted.

    Purpose: what a receiver takes and cannot store fills the memory of the executor.
    Method: accept no block; put 4 times 1,000 large records, each time once the receiver has taken those before.
    Condition: it stops taking records before the last.
    Requires: a feeder with taken.
    """
    feeder = kit.feeder()
    feeder.taken()
    if kit.capabilities.drops:
        raise NotApplicable("it drops what it cannot store: see RC-24")
    harness = kit.harness(kit.make(feeder), conf=_CONF | _SMALL_BUFFERS)
    harness.hold()
    harness.start()
    for number in range(1, _ROUNDS + 1):
        feeder.put(feeder.large(kit.rng, _ROUND_RECORDS))
        # The core's own buffer ends before the first round.
        if not _takes_all(kit, feeder, number * _ROUND_RECORDS):
            return
    fail(f"it has taken {feeder.taken()} records while none was accepted", f"{_ROUNDS} x put(1,000 large records)")


def _takes_all(kit: ReceiverKit, feeder: Feeder, count: int) -> bool:
    """Whether the receiver takes this many records before it is idle."""
    while feeder.taken() < count:
        before = feeder.taken()
        # Idle threads may also be those of a machine that is busy elsewhere.
        if kit.is_quiet(_ARRIVE_S) and not kit.becomes(lambda: feeder.taken() != before, 0.2):  # noqa: B023
            return False
    return True


@check("RC-24", "must", change="wait in store until there is room, or report how many records were dropped")
def overflow_is_declared_and_counted(kit: ReceiverKit) -> None:
    """What cannot be stored at once is stored later, or its loss is declared and reported.

    Purpose: a record that is dropped without a word is missed by nobody until the books do not balance.
    Method: accept no block; put 20 times 100 records, and accept again when the receiver is idle.
    Condition: every record is stored. With ``Capabilities.drops``, the errors reported say how many were dropped, and
        these and the stored ones are all.
    Requires: a feeder.
    """
    feeder = kit.feeder()
    harness = kit.harness(kit.make(feeder), conf=_CONF | _SMALL_BUFFERS)
    harness.hold()
    harness.start()
    records = feeder.sample(kit.rng, 2000)
    for start in range(0, len(records), 100):
        feeder.put(records[start : start + 100])
    kit.is_quiet(2)
    harness.accept()
    kit.arrives(lambda: harness.count + _dropped(kit, harness), len(records), _ARRIVE_S)
    stored, dropped = harness.count, _dropped(kit, harness)
    if stored + dropped != len(records):
        reported = f"; {dropped} reported as dropped" if kit.capabilities.drops else ""
        fail(
            f"{len(records)} records fed, {stored} stored{reported}; errors: {harness.errors[-2:]}",
            "hold blocks; 20 x put(100 records); accept blocks",
        )


def _dropped(kit: ReceiverKit, harness: ReceiverHarness) -> int:
    """The sum of the first numbers in the errors that speak of dropped records."""
    if not kit.capabilities.drops:
        return 0
    numbers = [re.search(r"\d+", error.replace(",", "")) for error in harness.errors if "drop" in error]
    return sum(int(each.group()) for each in numbers if each)
