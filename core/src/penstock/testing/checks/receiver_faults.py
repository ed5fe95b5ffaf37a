"""Receiver checks RC-25 to RC-30: refused and broken connections, bad records, errors, threads that end."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise

from penstock.runtime.clock import ManualClock
from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.feeder import Feeder
from penstock.testing.kit import ReceiverKit
from penstock.testing.receiver_harness import ReceiverHarness
from penstock.testing.receiver_workers import ReceiverWorkers

# Delays that the back-off check measures, and how long the manual clock runs for them.
_DELAYS, _LONGEST_MS = 5, 600_000
# Attempts without a delay from which on they are a loop.
_SPIN = 20


@check("RC-25", "must", change="catch the error and call restart(message, error), or raise it in receive()")
def refused_connection_is_reported(kit: ReceiverKit) -> None:
    """A refused connection is reported, and does not end the receiver.

    Purpose: a source that is down when the program starts is usual; an error of onStart costs the receiver its task.
    Method: cut the source off, start the receiver.
    Condition: an error is reported; a receiver that reconnects is not terminated.
    Requires: Feeder.cut.
    """
    feeder = kit.feeder()
    feeder.cut()
    harness = kit.run(kit.make(feeder))
    if harness.is_terminated and any("Error starting receiver" in end for end in harness.ends):
        fail(f"onStart raised: {harness.ends[-1]}", "a source that refuses connections")
    kit.until(lambda: harness.errors or harness.ends, "no error reported")
    if harness.is_terminated and kit.capabilities.reconnects:
        fail(f"the receiver has ended: {harness.ends[-1]}", "a source that refuses connections")


@check("RC-26", "must", requires="reconnects", change="call restart when the connection breaks, or connect in a loop")
def reconnects_after_cut(kit: ReceiverKit) -> None:
    """After its connection broke, a receiver connects again and stores what follows.

    Purpose: servers restart; nobody restarts the program for that.
    Method: store a record, cut the source off until the receiver has tried again, heal the source, put another record.
    Condition: the second record is stored within 15 s.
    Requires: Capabilities.reconnects, Feeder.cut and heal.
    """
    feeder = kit.feeder()
    before, after = feeder.sample(kit.rng, 2)
    harness = kit.run(kit.make(feeder))
    feeder.put([before])
    kit.until_stored(harness, [before])
    feeder.cut()
    # The second error is that of another attempt. One that makes none so soon, or without a word, is as good.
    kit.becomes(lambda: len(harness.errors) > 1 or harness.is_terminated, 0.5)
    feeder.heal()
    feeder.put([after])
    if not kit.becomes(lambda: after in harness.records, 15):
        fail(f"the record after the cut is not stored; errors: {harness.errors[-3:]}", "one record, a cut, one record")


@check(
    "RC-27",
    "should",
    requires="reconnects",
    change="let restart choose the delay, or double your own up to a limit",
)
def backs_off_when_flapping(kit: ReceiverKit) -> None:
    """The delays between attempts to connect grow, with bounded jitter.

    Purpose: a thousand receivers that retry at a constant pace keep a recovering server down.
    Method: cut the source off and start the receiver on a manual clock; measure the delays between six attempts, seen
        as polls of the source or as reported errors. Delays that do not run on the receiver's clock, as those of
        restart do, are measured in real time between at least five attempts.
    Condition: the last delay is at least twice the first, none is shorter than half of the one before; in real time,
        the second half of the delays is at least twice as long as the first.
    Requires: Capabilities.reconnects, Feeder.cut, real delays below 2 s.
    """
    feeder = kit.feeder()
    feeder.cut()
    clock = ManualClock()
    conf = {"spark.streaming.receiverRestartDelay": "100ms", "spark.streaming.blockInterval": "50ms"}
    harness = kit.run(kit.make(feeder), clock, conf)
    attempts = _Attempts(feeder, harness)
    kit.until(attempts, "no attempt to connect seen, and no error reported")
    moments, seen = [0], 1
    while len(moments) <= _DELAYS and clock.now_ms() < _LONGEST_MS:
        if not _waits_on(kit, clock, attempts, seen):
            _judge_real_delays(kit, attempts)
            return
        # A step that lengthens with the delay measures each to a tenth.
        clock.advance(max(50, (clock.now_ms() - moments[-1]) // 10))
        if attempts() > seen:
            moments, seen = [*moments, clock.now_ms()], attempts()
    delays = [after - before for before, after in pairwise(moments)]
    if len(delays) < _DELAYS:
        fail(f"only {len(delays)} further attempts to connect within {_LONGEST_MS // 60_000} min, delays {delays} ms")
    if delays[-1] < 2 * delays[0]:
        fail(f"the delays do not grow: {delays} ms", "six refused connections")
    if any(after < before / 2 for before, after in pairwise(delays)):
        fail(f"a delay is shorter than half of the one before: {delays} ms", "six refused connections")


class _Attempts:
    """Counts attempts to connect: as the source sees them, or as they are reported, whatever is more."""

    def __init__(self, feeder: Feeder, harness: ReceiverHarness) -> None:
        self._feeder, self._harness = feeder, harness
        #: When each was seen, in real seconds.
        self.moments_s: list[float] = []

    def __call__(self) -> int:
        seen = max(_polls(self._feeder), len(self._harness.errors))
        self.moments_s += [time.monotonic()] * (seen - len(self.moments_s))
        return seen


def _judge_real_delays(kit: ReceiverKit, attempts: _Attempts) -> None:
    for count in range(_DELAYS):
        if not kit.becomes(lambda: attempts() > count, 2):  # noqa: B023
            raise NotApplicable("the delays between attempts are not those of restart, and longer than 2 s")
    delays = [round((after - before) * 1000) for before, after in pairwise(attempts.moments_s)]
    half = len(delays) // 2
    if sum(delays[-half:]) < 2 * sum(delays[:half]):
        fail(f"the delays do not grow: {delays} ms in real time", f"{len(delays) + 1} refused connections")


def _waits_on(kit: ReceiverKit, clock: ManualClock, attempts: _Attempts, seen: int) -> bool:
    """Wait until the receiver waits on the clock, beside the timer that cuts blocks; return whether it does."""

    def waits() -> bool:
        try:
            clock.await_waiters(2, 0)
        except TimeoutError:
            return False
        return True

    kit.becomes(lambda: attempts() >= seen + _SPIN or waits(), 0.5)
    if attempts() >= seen + _SPIN:
        fail(f"{_SPIN} attempts to connect without a delay", "a source that refuses connections")
    return waits()


@check("RC-28", "must", change="catch the error of the decoder, report or count it, and continue with the next record")
def bad_record_is_contained(kit: ReceiverKit) -> None:
    """A record that cannot be decoded is reported and costs no other record.

    Purpose: one malformed message must not stop a stream, repeat it, or vanish without a word.
    Method: put a good record, a bad one, a good one; then stop the receiver.
    Condition: the good records are stored once, nothing else is, and an error is reported, by the stop at the latest.
    Requires: Feeder.put_bad.
    """
    feeder = kit.feeder()
    before, after = feeder.sample(kit.rng, 2)
    harness = kit.run(kit.make(feeder))
    feeder.put([before])
    feeder.put_bad()
    feeder.put([after])
    if not kit.becomes(lambda: after in harness.records):
        fail(
            f"the record after the bad one is not stored; errors: {harness.errors[-3:]}", "a good, a bad, a good record"
        )
    harness.stop()
    if extra := list((Counter(harness.records) - Counter([before, after])).elements()):
        fail(f"stored what nobody put, or twice: {extra}", "a good, a bad, a good record")
    if missing := list((Counter([before, after]) - Counter(harness.records)).elements()):
        fail(f"not stored: {missing}", "a good, a bad, a good record")
    if not harness.errors:
        fail("no error reported", "a good, a bad, a good record")


@check("RC-29", "must", change="raise the error, or call restart or reportError with it: one of them, once")
def fatal_error_reported_once(kit: ReceiverKit) -> None:
    """An error that ends a connection is reported, and reported once.

    Purpose: an operator counts errors; a restart budget does, too.
    Method: store a record, cut the source off with time standing still, so that no further attempt is made; then stop
        the receiver.
    Condition: one error is reported, or one for each attempt that the source has seen.
    Requires: Feeder.cut.
    """
    feeder, clock = kit.feeder(), ManualClock()
    [record] = feeder.sample(kit.rng, 1)
    harness = kit.run(kit.make(feeder), clock)
    feeder.put([record])

    def stored() -> bool:
        clock.advance(20)
        return harness.count > 0

    kit.until(stored, "the record is not stored")
    before, polls = len(harness.errors), _polls(feeder)
    feeder.cut()
    kit.until(lambda: len(harness.errors) > before or harness.ends, "no error reported")
    # A restart or the end come after the receiver's threads have ended: nothing more is reported for this error then.
    kit.becomes(lambda: harness.ends, 1)
    harness.stop()
    errors = harness.errors[before:]
    if len(errors) > 1 + _polls(feeder) - polls:
        fail(f"one error is reported {len(errors)} times: {errors[:3]}", "one record, a cut")


def _polls(feeder: Feeder) -> int:
    try:
        return feeder.polls()
    except NotApplicable:
        return 0


@check("RC-30", "must", change="report what ends a thread or process of yours: restart(message, error)")
def dead_worker_is_noticed(kit: ReceiverKit) -> None:
    """The unforeseen end of a thread or process that the receiver has started is noticed.

    Purpose: a receiver whose reader is dead looks healthy for ever and delivers nothing.
    Method: store a record, raise an exception in every thread that the receiver has started, put another record. The
        same with a new receiver whose processes are killed.
    Condition: an error is reported, the receiver ends or restarts, or the second record is stored.
    Requires: a feeder; a receiver that starts threads or processes.
    """
    ends = [_end_workers(kit, what) for what in ("threads", "processes")]
    if not any(ends):
        raise NotApplicable("it starts neither threads nor processes")


def _end_workers(kit: ReceiverKit, what: str) -> bool:
    """Run a receiver and end its threads or processes; return whether it has some."""
    feeder = kit.feeder()
    before, after = feeder.sample(kit.rng, 2)
    harness = kit.harness(kit.make(feeder))
    with ReceiverWorkers(harness.receiver) as workers:
        harness.start()
        feeder.put([before])
        kit.until_stored(harness, [before])
        errors = len(harness.errors)
        ended = workers.end_threads() if what == "threads" else workers.kill_processes()
        if ended:
            # Wakes what waits for data: an exception is raised in a thread once it runs.
            feeder.put([after])
            if not kit.becomes(lambda: len(harness.errors) > errors or harness.ends or after in harness.records):
                fail(f"nobody noticed the end of {', '.join(ended)}; nothing is stored any more", "two records")
        harness.stop()
    return bool(ended)
