"""Signals, sent to a real process: each is reported once, whatever the main thread does; handlers are restored."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from tests.helpers import run_in_background

PROGRAM = """
import os, signal, sys, threading
from penstock.spark.stop_requests import StopRequests

def say(*words):
    # One write: print() from two threads may mix their lines.
    os.write(1, (" ".join(words) + "\\n").encode())

reported, lock = threading.Semaphore(0), threading.Lock()

def on_signal(number):
    with lock:
        say("reported", signal.Signals(number).name)
    reported.release()

signals = StopRequests(on_signal)
"""


class Process:
    """A program that prints lines and waits for signals."""

    def __init__(self, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM + code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.process.send_signal(number)

    def send_line(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> tuple[list[str], int]:
        """The lines not read yet, and the exit code."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        return lines, self.process.wait(30)


@pytest.fixture
def start() -> Iterator[Callable[[str], Process]]:
    made: list[Process] = []

    def start(code: str) -> Process:
        made.append(Process(code))
        return made[-1]

    yield start
    for each in made:
        with each.process:
            each.process.kill()


def test_signal_is_reported_while_the_main_thread_holds_a_lock_that_the_callback_takes(
    start: Callable[[str], Process],
) -> None:
    program = start(
        """
signals.install()
with lock:
    say("ready")
    sys.stdin.readline()
    say("interrupted")
reported.acquire()
signals.restore()
say("over")
signal.pause()
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGTERM)
    program.send_line()
    assert [program.line() for _ in range(3)] == ["interrupted", "reported SIGTERM", "over"]
    # The default handler is back, which ends the program.
    program.send(signal.SIGTERM)
    assert program.end() == ([], -signal.SIGTERM)


def test_each_signal_is_reported(start: Callable[[str], Process]) -> None:
    program = start(
        """
signals.install()
say("ready")
reported.acquire()
reported.acquire()
signals.close()
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGINT)
    assert program.line() == "reported SIGINT"
    program.send(signal.SIGTERM)
    assert program.end() == (["reported SIGTERM"], 0)


def test_the_programs_handler_is_called_too_and_ignored_signals_stay_ignored(start: Callable[[str], Process]) -> None:
    program = start(
        """
def own(number, _frame):
    say("own")
    sys.exit(7)

signal.signal(signal.SIGTERM, own)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signals.install()
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
try:
    say("ready")
    signal.pause()
finally:
    signals.close()
    signals.restore()
    assert signal.getsignal(signal.SIGTERM) is own
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGTERM)
    lines, code = program.end()
    assert (sorted(lines), code) == (["own", "reported SIGTERM"], 7)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_after_close_has_its_previous_effect_whatever_the_main_thread_does(
    number: signal.Signals, start: Callable[[str], Process]
) -> None:
    program = start(
        """
signals.install()
ending = threading.Thread(target=signals.close)
ending.start()
ending.join()
try:
    say("over")
    while True:
        reported.acquire(timeout=0.01)
except KeyboardInterrupt:
    sys.stderr = None
    raise
"""
    )
    assert program.line() == "over"
    program.send(number)
    assert program.end() == ([], -number)


HANDLER_BEFORE = """
def own(number, _frame):
    say("own")
    reported.release()

signal.signal(signal.SIGTERM, own)
signals.install()
"""
HANDLER_LATER = """
def own(number, frame):
    say("own")
    below(number, frame)
    reported.release()

signals.install()
below = signal.signal(signal.SIGTERM, own)
"""


@pytest.mark.parametrize("install", [HANDLER_BEFORE, HANDLER_LATER], ids=["set before", "set later"])
def test_the_programs_handler_is_called_once_after_close(start: Callable[[str], Process], install: str) -> None:
    program = start(
        install
        + """
signals.close()
say("over")
reported.acquire()
assert signal.getsignal(signal.SIGTERM) is own
"""
    )
    assert program.line() == "over"
    program.send(signal.SIGTERM)
    assert program.end() == (["own"], 0)


def test_failing_callback_does_not_prevent_later_reports(start: Callable[[str], Process]) -> None:
    program = start(
        """
failing = on_signal
def on_signal(number):
    failing(number)
    raise RuntimeError("no thread can be started")

signals = StopRequests(on_signal)
signals.install()
say("ready")
reported.acquire()
reported.acquire()
signals.close()
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGINT)
    assert program.line() == "reported SIGINT"
    program.send(signal.SIGTERM)
    lines, code = program.end()
    assert "reported SIGTERM" in lines
    assert any("RuntimeError: no thread can be started" in line for line in lines)
    assert code == 0


def test_pysparks_interrupt_handler_is_overridden_and_restored() -> None:
    from penstock.spark.stop_requests import StopRequests

    def cancel_all(_number: int, _frame: object) -> None: ...

    cancel_all.__module__ = "pyspark.core.context"
    before = signal.signal(signal.SIGINT, cancel_all)
    try:
        signals = StopRequests(lambda _number: None)
        signals.override_pysparks_interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signals.restore()
        assert signal.getsignal(signal.SIGINT) is cancel_all
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_are_left_alone_off_the_main_thread() -> None:
    from penstock.spark.stop_requests import StopRequests

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    signals = StopRequests(lambda _number: None)
    for method in (signals.install, signals.override_pysparks_interrupt, signals.restore):
        run_in_background(method).result(timeout=10)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
