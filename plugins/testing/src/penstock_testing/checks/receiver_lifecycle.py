"""Receiver checks RC-01 to RC-09: how a receiver starts, stops and restarts."""

from __future__ import annotations

from functools import partial

from penstock import Receiver
from penstock_testing.check import NotApplicable, check, fail, fail_raised
from penstock_testing.feeder import Feeder
from penstock_testing.io_watch import IoWatch
from penstock_testing.leaks import LeakMeter
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject
from penstock_testing.receiver_workers import ReceiverWorkers

_PROMPT_S = 2.0
_STOP_S = 3.0


def _started(subject: ReceiverSubject) -> tuple[Feeder | None, ReceiverHarness]:
    """A running receiver that waits for data. With a feeder, it has stored one record before."""
    feeder, harness, _ = _recorded(subject)
    return feeder, harness


def _recorded(subject: ReceiverSubject) -> tuple[Feeder | None, ReceiverHarness, ReceiverWorkers]:
    """As ``_started``, with the threads that the receiver starts."""
    feeder = None if subject.suite.feeder is None else subject.feeder()
    harness = subject.harness(subject.make(feeder))
    workers: ReceiverWorkers = subject.enter(ReceiverWorkers(harness.receiver))
    harness.start()
    if feeder is not None:
        feeder.put(feeder.sample(subject.rng, 1))
        # RC-10 checks whether it is stored.
        subject.becomes(lambda: harness.count, _PROMPT_S)
    return feeder, harness, workers


class ReceiverLifecycleChecks:
    """The checks of this module, as test methods."""

    @check("RC-01", "must", change="connect, open files and start threads in onStart, not in __init__")
    def test_RC_01_constructor_does_no_io(self, subject: ReceiverSubject) -> None:
        """A receiver's constructor only stores its arguments.

        Purpose: the constructor runs on the driver, which may not reach the source and never closes the receiver.
        Condition: the constructor opens no connection, starts no process or thread, opens no file, and leaves no
            descriptor or temporary file.
        """
        arguments = [] if subject.suite.feeder is None else [subject.feeder()]
        make = subject.maker(*arguments)
        meter = LeakMeter()
        with IoWatch() as watch:
            receiver = make()
        if watch.seen:
            fail(f"the constructor of {type(receiver).__name__} called {'; '.join(watch.seen[:3])}")
        if leaks := meter.leaks(0.0):
            fail(f"after the constructor of {type(receiver).__name__}, {'; '.join(leaks)}")

    @check("RC-02", "must", change="start a thread in onStart and connect there, or derive from ThreadReceiver")
    def test_RC_02_start_returns_promptly(self, subject: ReceiverSubject) -> None:
        """``onStart`` returns promptly.

        Purpose: onStart runs on the thread that also stops and restarts the receiver.
        Condition: onStart returns within 2 s.
        """
        feeder = None if subject.suite.feeder is None else subject.feeder()
        what = "a source without data"
        if feeder is not None:
            try:
                feeder.pause()
                what = "a source that accepts connections and does not answer"
            except NotApplicable:
                pass
        harness = subject.harness(subject.make(feeder))
        if not subject.finishes(harness.start, _PROMPT_S):
            fail(f"onStart has not returned after {subject.deadline_s(_PROMPT_S):g} s", what)

    @check("RC-03", "must", change="raise in onStart while the receiver runs, or return without doing anything")
    def test_RC_03_second_start_refused(self, subject: ReceiverSubject) -> None:
        """A second start of a running receiver has no effect.

        Purpose: two readers of one source store records twice, and a stop ends only one of them.
        Condition: each record is stored at most once, and no thread is alive after the stop.
        """
        feeder, harness = _started(subject)
        subject.finishes(harness.receiver.onStart, _PROMPT_S)
        if feeder is not None:
            before = harness.records
            records = feeder.sample(subject.rng, 20)
            feeder.put(records)
            subject.becomes(lambda: harness.count >= len(before) + len(records), _PROMPT_S)
            subject.is_quiet()
            for record in records:
                if (count := harness.records.count(record) - before.count(record)) > 1:
                    fail(
                        f"after a second start the receiver stored record {record!r} {count} times",
                        "onStart(); onStart(); put([record])",
                    )
        if not subject.finishes(harness.stop, _STOP_S):
            fail(
                f"after a second start the stop has not ended within {subject.deadline_s(_STOP_S):g} s",
                "onStart(); onStart(); onStop()",
            )
        subject.close()
        if not subject.becomes(lambda: not subject.leak_meter.threads(), _STOP_S):
            names = ", ".join(thread.name for thread in subject.leak_meter.threads())
            fail(f"after a second start and a stop these threads are alive: {names}", "onStart(); onStart(); onStop()")

    @check("RC-04", "must", change="return from onStop when nothing was started")
    def test_RC_04_stop_before_start_harmless(self, subject: ReceiverSubject) -> None:
        """A stop before the start has no effect.

        Purpose: the supervisor also stops a receiver that failed before its start, and may start it later.
        Condition: onStop returns within 2 s without an error, and the record is stored.
        """
        feeder = None if subject.suite.feeder is None else subject.feeder()
        receiver = subject.make(feeder)
        _stop_directly(subject, receiver, "onStop()")
        harness = subject.run(receiver)
        if harness.is_terminated:
            fail(f"the receiver does not start after onStop; {harness.reports()}", "onStop(); onStart()")
        if feeder is not None:
            feeder.put(feeder.sample(subject.rng, 1))
            subject.until(lambda: harness.count, "the receiver stores no record after onStop and onStart", 3)

    @check("RC-05", "must", change="let a second onStop return without doing anything")
    def test_RC_05_stop_is_idempotent(self, subject: ReceiverSubject) -> None:
        """A second stop has no effect.

        Purpose: the driver may stop a receiver that has just stopped by itself.
        Condition: each call returns within 2 s without an error.
        """
        _, harness = _started(subject)
        subject.finishes(harness.stop, _STOP_S)
        for calls in (2, 3):
            _stop_directly(subject, harness.receiver, f"onStart(); {'; '.join(['onStop()'] * calls)}")

    @check("RC-06", "must", limit_s=40, change="in onStop, close the socket or set the event that the read waits for")
    def test_RC_06_stop_wakes_a_blocked_read(self, subject: ReceiverSubject) -> None:
        """A stop wakes a read that waits for data.

        Purpose: a receiver that ignores a stop occupies its executor slot and blocks a graceful stop.
        Condition: within 3 s onStop has returned; 3 s later the threads that the receiver started have ended.
        """
        if _threads_after_stop(subject) and (left := _threads_after_stop(subject)):
            fail(
                f"{subject.deadline_s(_STOP_S):g} s after the stop these threads are alive: {left}",
                "a source without data",
            )

    @check("RC-07", "must", change="create all state in onStart: reuse nothing that onStop has closed or set")
    def test_RC_07_restart_after_stop_works(self, subject: ReceiverSubject) -> None:
        """A stopped receiver can be restarted, in the same process and as a new copy.

        Purpose: an error restarts a receiver in its task; the driver relaunches an ended receiver in a new task.
        Condition: the receiver stores each record.
        """
        feeder, harness = subject.start()
        records = feeder.sample(subject.rng, 4)
        _put_and_await(subject, feeder, harness, records[0], "its start")
        for number in (1, 2):
            harness.restart()
            if not subject.becomes(partial(_has_started, harness, number + 1), 3):
                fail(f"the receiver does not restart; {harness.reports()}", f"{number} restarts")
            _put_and_await(subject, feeder, harness, records[number], f"{number} restarts")
        if not subject.finishes(harness.stop, _STOP_S):
            return  # RC-06 reports it
        _put_and_await(
            subject, feeder, subject.run(subject.make(feeder)), records[3], "a stop and the start of a new copy"
        )

    @check(
        "RC-08",
        "must",
        change="close in onStop, or when receive() returns, what was opened; set nothing global, and print nothing",
    )
    def test_RC_08_nothing_left_behind(self, subject: ReceiverSubject) -> None:
        """A stopped receiver has released what it opened, and has changed nothing else in the process.

        Purpose: a receiver restarts many times in the life of an executor, and leaks add up. Global state, such as the
            working directory, the environment or the root logger, belongs to the program, and so does standard output.
        Condition: the second run leaves no additional thread, process, descriptor or temporary file; the global state
            is unchanged; the receiver prints nothing to standard output or standard error.
        """
        _run_once(subject)
        subject.leak_meter.leaks(subject.deadline_s(0.5))
        meter = LeakMeter()
        threads = _run_once(subject)
        if leaks := [*threads, *meter.leaks(subject.deadline_s(2)), *subject.effects()]:
            fail("; ".join(dict.fromkeys(leaks)), "a start, a restart and a stop")

    @check("RC-09", "must", change="let onStop end every thread that stores, and return after that")
    def test_RC_09_nothing_stored_after_stop(self, subject: ReceiverSubject) -> None:
        """A stopped receiver stores nothing.

        Purpose: a record that the receiver reads after the stop cannot be stored, and is lost.
        Condition: the receiver calls no form of store after the stop is complete.
        """
        feeder = subject.feeder()
        meter = LeakMeter()
        harness = subject.run(subject.make(feeder))
        records = feeder.sample(subject.rng, 20)
        feeder.put(records[:10])
        subject.becomes(lambda: harness.count >= 10, _PROMPT_S)
        subject.finishes(harness.stop, _STOP_S)
        feeder.put(records[10:])
        # Once the threads have ended, no store can follow. RC-08 reports threads that do not end.
        subject.becomes(lambda: harness.late_stores or not meter.threads(), 1)
        if harness.late_stores:
            fail(
                f"the receiver called {harness.late_stores[0]} after its stop was complete",
                "put(10 records); stop; put(10 records)",
            )


def _stop_directly(subject: ReceiverSubject, receiver: Receiver[object], what: str) -> None:
    raised: list[BaseException] = []

    def stop() -> None:
        try:
            receiver.onStop()
        except BaseException as error:
            raised.append(error)

    if not subject.finishes(stop, _PROMPT_S):
        fail(f"onStop has not returned after {subject.deadline_s(_PROMPT_S):g} s", what)
    for error in raised:
        fail_raised("onStop", error, what)


def _threads_after_stop(subject: ReceiverSubject) -> str:
    """Stop a receiver that waits for data; return the names of its threads that do not end."""
    feeder, harness, workers = _recorded(subject)
    if feeder is not None:
        subject.is_quiet(1)
    if not subject.finishes(harness.stop, _STOP_S):
        fail(f"the receiver has not ended {subject.deadline_s(_STOP_S):g} s after its stop", "a source without data")
    # The feeder is still open: its end would wake a read that the stop did not.
    subject.becomes(lambda: not workers.alive_threads(), _STOP_S)
    return ", ".join(workers.alive_threads())


def _has_started(harness: ReceiverHarness, times: int) -> bool:
    return harness.starts >= times


def _put_and_await(
    subject: ReceiverSubject, feeder: Feeder, harness: ReceiverHarness, record: object, what: str
) -> None:
    feeder.put([record])
    subject.until(
        lambda: record in harness.records,
        lambda: f"after {what} the receiver stores no record; {harness.reports()}",
        3,
    )


def _run_once(subject: ReceiverSubject) -> list[str]:
    """Start, restart and stop a receiver; return its threads that are alive while the feeder is still open."""
    _, harness, workers = _recorded(subject)
    harness.restart()
    subject.becomes(lambda: harness.starts > 1 or harness.is_terminated, _PROMPT_S)
    subject.finishes(harness.stop, _STOP_S)
    subject.becomes(lambda: not workers.alive_threads(), _STOP_S)
    threads = [f"{thread} is alive" for thread in workers.alive_threads()]
    subject.close()
    return threads
