"""Receiver checks RC-25 to RC-30: refused and broken connections, bad records, errors, crashed threads."""

from __future__ import annotations

import gc
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.feeder import Feeder
from penstock_testing.manual_clock import ManualClock
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject
from penstock_testing.receiver_workers import ReceiverWorkers

# The number of delays that the back-off check measures, and the limit of the manual clock.
_DELAYS, _LONGEST_MS = 5, 600_000
# This many attempts without a delay are a busy loop.
_SPIN = 20


class ReceiverFaultsChecks:
    """The checks of this module, as test methods."""

    @check("RC-25", "must", change="catch the error and call restart(message, error), or raise it in receive()")
    def test_RC_25_refused_connection_is_reported(self, subject: ReceiverSubject) -> None:
        """The receiver reports a refused connection and keeps running.

        Purpose: a source is often down when the program starts. An error of onStart fails the receiver's task.
        Condition: the receiver reports an error. If it reconnects, it does not end.
        """
        feeder = subject.feeder()
        feeder.cut()
        harness = subject.run(subject.make(feeder))
        if harness.is_terminated and any("Error starting receiver" in end for end in harness.ends):
            fail(f"onStart raised an error: {harness.ends[-1]}", "a source that refuses connections")
        subject.until(lambda: harness.errors or harness.ends, "the receiver reported no error for a refused connection")
        if harness.is_terminated and subject.capabilities.reconnects:
            fail(f"the receiver has ended: {harness.ends[-1]}", "a source that refuses connections")

    @check(
        "RC-26", "must", requires="reconnects", change="call restart when the connection breaks, or connect in a loop"
    )
    def test_RC_26_reconnects_after_cut(self, subject: ReceiverSubject) -> None:
        """The receiver reconnects after its connection broke, and stores the records that follow.

        Purpose: a server restarts more often than the program.
        Condition: the second record is stored within 15 s.
        """
        feeder = subject.feeder()
        before, after = feeder.sample(subject.rng, 2)
        harness = subject.run(subject.make(feeder))
        feeder.put([before])
        subject.until_stored(harness, [before])
        feeder.cut()
        # The second error is from a further attempt. A receiver may also wait longer, or not report each attempt.
        subject.becomes(lambda: len(harness.errors) > 1 or harness.is_terminated, 0.5)
        feeder.heal()
        feeder.put([after])
        if not subject.becomes(lambda: after in harness.records, 15):
            fail(
                f"the record after the cut is not stored within {subject.deadline_s(15):g} s; {harness.reports()}",
                "one record, a cut, one record",
            )

    @check(
        "RC-27",
        "should",
        requires="reconnects",
        change="call restart without a delay of your own, or double your delay up to a limit",
    )
    def test_RC_27_backs_off_when_flapping(self, subject: ReceiverSubject) -> None:
        """The receiver backs off: the delays between its attempts to connect grow, with bounded jitter.

        Purpose: a thousand receivers that retry at a constant rate prevent a server's recovery.
        Condition: the last delay is at least twice the first, and none is shorter than half of the one before. In real
            time the second half of the delays is at least twice as long as the first half.
        """
        feeder = subject.feeder()
        feeder.cut()
        clock = ManualClock()
        conf = {
            "spark.streaming.receiverRestartDelay": "100ms",
            "spark.streaming.blockInterval": "50ms",
            # Without this timeout the supervisor does not wait for onStop on the clock: a wait would count as a delay.
            "spark.penstock.receiver.stopTimeout": "0",
        }
        harness = subject.run(subject.make(feeder), clock, conf)
        attempts = _Attempts(feeder, harness)
        subject.until(attempts, "the receiver made no attempt to connect, and reported no error")
        moments, seen = [0], 1
        while len(moments) <= _DELAYS and clock.now_ms() < _LONGEST_MS:
            if not _waits_on(subject, clock, attempts, seen):
                _judge_real_delays(subject, attempts)
                return
            # Steps of a tenth of the delay so far measure every delay with this relative precision.
            clock.advance(max(50, (clock.now_ms() - moments[-1]) // 10))
            if attempts() > seen:
                moments, seen = [*moments, clock.now_ms()], attempts()
        delays = [after - before for before, after in pairwise(moments)]
        if len(delays) < _DELAYS:
            fail(
                f"the receiver retried {len(delays)} times within {_LONGEST_MS // 60_000} min, after {delays} ms, "
                f"and at least {_DELAYS} attempts are required"
            )
        if delays[-1] < 2 * delays[0]:
            fail(f"the delays between attempts do not grow: {delays} ms", "six refused connections")
        if any(after < before / 2 for before, after in pairwise(delays)):
            fail(
                f"a delay between attempts is shorter than half of the one before: {delays} ms",
                "six refused connections",
            )

    @check(
        "RC-28", "must", change="catch the error of the decoder, report or count it, and continue with the next record"
    )
    def test_RC_28_bad_record_is_contained(self, subject: ReceiverSubject) -> None:
        """The receiver reports a record that it cannot decode, and stores all others.

        Purpose: a malformed message must neither stop nor repeat a stream, and must not be lost silently.
        Condition: the good records are stored once, nothing else is, and the receiver reports an error before it ends.
        """
        feeder = subject.feeder()
        before, after = feeder.sample(subject.rng, 2)
        harness = subject.run(subject.make(feeder))
        feeder.put([before])
        feeder.put_bad()
        feeder.put([after])
        if not subject.becomes(lambda: after in harness.records):
            fail(
                f"the record after the bad one is not stored; {harness.reports()}",
                "a good, a bad, a good record",
            )
        harness.stop()
        if extra := list((Counter(harness.records) - Counter([before, after])).elements()):
            fail(f"the receiver stored records that were not put, or twice: {extra}", "a good, a bad, a good record")
        if missing := list((Counter([before, after]) - Counter(harness.records)).elements()):
            fail(f"the receiver did not store {missing}", "a good, a bad, a good record")
        if not harness.errors:
            fail("the receiver reported no error for the bad record", "a good, a bad, a good record")

    @check("RC-29", "must", change="either raise the error, or call restart or reportError with it, once")
    def test_RC_29_fatal_error_reported_once(self, subject: ReceiverSubject) -> None:
        """The receiver reports an error that ends a connection once.

        Purpose: operators and the failure budget count errors.
        Condition: the receiver reports one error, or one for each attempt that the source has seen.
        """
        feeder, clock = subject.feeder(), ManualClock()
        [record] = feeder.sample(subject.rng, 1)
        harness = subject.run(subject.make(feeder), clock)
        feeder.put([record])

        def stored() -> bool:
            clock.advance(20)
            return harness.count > 0

        subject.until(stored, "the record is not stored")
        # The request after the record may not have begun: it would count as an attempt after the cut.
        stored_polls = _polls(feeder)
        subject.becomes(lambda: _polls(feeder) > stored_polls, 1)
        before, polls = len(harness.errors), _polls(feeder)
        feeder.cut()
        subject.until(
            lambda: len(harness.errors) > before or harness.ends,
            "the receiver reported no error for a broken connection",
        )
        # The receiver's threads have ended before a restart or its end: they report no more errors then.
        subject.becomes(lambda: harness.ends, 3)
        harness.stop()
        errors = harness.errors[before:]
        if len(errors) > 1 + _polls(feeder) - polls:
            fail(f"the receiver reported one error {len(errors)} times: {errors[:3]}", "one record, a cut")

    @check("RC-30", "must", change="catch the end of your threads and processes, and call restart(message, error)")
    def test_RC_30_dead_worker_is_noticed(self, subject: ReceiverSubject) -> None:
        """The receiver notices the crash of a thread or process that it has started.

        Purpose: a receiver with a dead reader looks healthy for ever and delivers nothing.
        Condition: the receiver reports an error, ends, restarts, or stores the second record.
        """
        subject.enter(_resource_warnings_ignored())
        ends = [_end_workers(subject, what) for what in ("threads", "processes")]
        if not any(ends):
            raise NotApplicable("the receiver starts neither threads nor processes")


class _Attempts:
    """Counts attempts to connect: polls of the source or reported errors, whichever are more."""

    def __init__(self, feeder: Feeder, harness: ReceiverHarness) -> None:
        self._feeder = feeder
        self._harness = harness
        #: When each was seen, in real seconds.
        self.moments_s: list[float] = []

    def __call__(self) -> int:
        seen = max(_polls(self._feeder), len(self._harness.errors))
        self.moments_s += [time.monotonic()] * (seen - len(self.moments_s))
        return seen


def _judge_real_delays(subject: ReceiverSubject, attempts: _Attempts) -> None:
    for count in range(_DELAYS):
        if not subject.becomes(lambda: attempts() > count, 2):  # noqa: B023
            raise NotApplicable("the delays between attempts do not follow the receiver's clock, and exceed 2 s")
    delays = [round((after - before) * 1000) for before, after in pairwise(attempts.moments_s)]
    half = len(delays) // 2
    if sum(delays[-half:]) < 2 * sum(delays[:half]):
        fail(
            f"the delays between attempts do not grow: {delays} ms in real time",
            f"{len(delays) + 1} refused connections",
        )


def _waits_on(subject: ReceiverSubject, clock: ManualClock, attempts: _Attempts, seen: int) -> bool:
    """Wait until the receiver waits on the clock, as the timer that cuts blocks does; return whether it does."""

    def waits() -> bool:
        try:
            clock.await_waiters(2, 0)
        except TimeoutError:
            return False
        return True

    # A receiver that makes further attempts meanwhile waits on another clock, or not at all. One alone may be late.
    subject.becomes(lambda: attempts() > seen + 1 or waits(), 10)
    if not waits():
        subject.becomes(lambda: attempts() >= seen + _SPIN, 0.5)
    if attempts() >= seen + _SPIN:
        fail(f"the receiver made {_SPIN} attempts to connect without a delay", "a source that refuses connections")
    return waits()


def _polls(feeder: Feeder) -> int:
    try:
        return feeder.polls()
    except NotApplicable:
        return 0


@contextmanager
def _resource_warnings_ignored() -> Iterator[None]:
    """Hide the resources that a library loses when the exception hits it between opening one and returning it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
        finally:
            gc.collect()


def _end_workers(subject: ReceiverSubject, what: str) -> bool:
    """Run a receiver and end its threads or processes; return whether it has some."""
    feeder = subject.feeder()
    before, after = feeder.sample(subject.rng, 2)
    harness = subject.harness(subject.make(feeder))
    with ReceiverWorkers(harness.receiver, can_end=True) as workers:
        harness.start()
        feeder.put([before])
        subject.until_stored(harness, [before])
        # Not within the store of this record: the exception would interrupt code of the core.
        subject.is_quiet(1)
        errors = len(harness.errors)
        ended = workers.end_threads() if what == "threads" else workers.kill_processes()
        if ended:
            # The record wakes a blocked thread, in which the exception is raised only then.
            feeder.put([after])
            if not subject.becomes(lambda: len(harness.errors) > errors or harness.ends or after in harness.records):
                fail(
                    f"the receiver did not notice the end of {', '.join(ended)}: it reported no error, and stores no "
                    "further record",
                    "two records",
                )
        harness.stop()
    return bool(ended)
