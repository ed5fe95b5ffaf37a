"""Signals, sent to a process of its own: told once each, whatever the main thread does, and given back."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

PROGRAM = """
import signal, sys, threading
from penstock.runtime.stop_signals import StopSignals

def say(*words):
    print(*words, flush=True)

told, lock = threading.Semaphore(0), threading.Lock()

def on_signal(number):
    with lock:
        say("told", signal.Signals(number).name)
    told.release()

signals = StopSignals(on_signal)
"""


class Process:
    """A program, line by line."""

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

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> tuple[list[str], int]:
        """What it said last, and its exit code."""
        assert self.process.stdout is not None
        said = self.process.stdout.read().splitlines()
        return said, self.process.wait(30)


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


def test_a_signal_is_told_while_the_main_thread_holds_a_lock_that_telling_takes(
    start: Callable[[str], Process],
) -> None:
    program = start(
        """
signals.take()
with lock:
    say("ready")
    sys.stdin.readline()
    say("interrupted")
told.acquire()
signals.give_back()
say("over")
signal.pause()
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGTERM)
    program.go_on()
    assert [program.line() for _ in range(3)] == ["interrupted", "told SIGTERM", "over"]
    # Given back: it ends the program, as before.
    program.send(signal.SIGTERM)
    assert program.end() == ([], -signal.SIGTERM)


def test_each_is_told(start: Callable[[str], Process]) -> None:
    program = start(
        """
signals.take()
say("ready")
told.acquire()
told.acquire()
signals.close()
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGINT)
    assert program.line() == "told SIGINT"
    program.send(signal.SIGTERM)
    assert program.end() == (["told SIGTERM"], 0)


def test_the_programs_own_handler_is_called_too_and_what_is_ignored_stays_so(start: Callable[[str], Process]) -> None:
    program = start(
        """
def own(number, _frame):
    say("own")
    sys.exit(7)

signal.signal(signal.SIGTERM, own)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signals.take()
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
try:
    say("ready")
    signal.pause()
finally:
    signals.close()
    signals.give_back()
    assert signal.getsignal(signal.SIGTERM) is own
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGTERM)
    said, code = program.end()
    assert (sorted(said), code) == (["own", "told SIGTERM"], 7)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_behind_the_end_a_signal_does_what_it_did_whatever_the_main_thread_is_at(
    number: signal.Signals, start: Callable[[str], Process]
) -> None:
    program = start(
        """
signals.take()
ending = threading.Thread(target=signals.close)
ending.start()
ending.join()
try:
    say("over")
    while True:
        told.acquire(timeout=0.01)
except KeyboardInterrupt:
    sys.stderr = None
    raise
"""
    )
    assert program.line() == "over"
    program.send(number)
    assert program.end() == ([], -number)


def test_behind_the_end_the_programs_own_handler_is_called_once(start: Callable[[str], Process]) -> None:
    program = start(
        """
def own(number, _frame):
    say("own")
    told.release()

signal.signal(signal.SIGTERM, own)
signals.take()
signals.close()
say("over")
told.acquire()
assert signal.getsignal(signal.SIGTERM) is own
"""
    )
    assert program.line() == "over"
    program.send(signal.SIGTERM)
    assert program.end() == (["own"], 0)


def test_signals_that_another_has_taken_on_top_are_its_own_behind_the_end(start: Callable[[str], Process]) -> None:
    program = start(
        """
def own(number, frame):
    say("own")
    below(number, frame)
    told.release()

signals.take()
below = signal.signal(signal.SIGTERM, own)
signals.close()
say("over")
told.acquire()
assert signal.getsignal(signal.SIGTERM) is own
"""
    )
    assert program.line() == "over"
    program.send(signal.SIGTERM)
    assert program.end() == (["own"], 0)


def test_a_signal_whose_telling_fails_keeps_none_from_being_told(start: Callable[[str], Process]) -> None:
    program = start(
        """
failing = on_signal
def on_signal(number):
    failing(number)
    raise RuntimeError("no thread can be started")

signals = StopSignals(on_signal)
signals.take()
say("ready")
told.acquire()
told.acquire()
signals.close()
"""
    )
    assert program.line() == "ready"
    program.send(signal.SIGINT)
    assert program.line() == "told SIGINT"
    program.send(signal.SIGTERM)
    said, code = program.end()
    assert "told SIGTERM" in said
    assert any("RuntimeError: no thread can be started" in line for line in said)
    assert code == 0


def test_pysparks_handler_of_the_interrupt_is_taken_back() -> None:
    from penstock.runtime.stop_signals import StopSignals

    def cancel_all(_number: int, _frame: object) -> None: ...

    cancel_all.__module__ = "pyspark.core.context"
    before = signal.signal(signal.SIGINT, cancel_all)
    try:
        signals = StopSignals(lambda _number: None)
        signals.take_interrupt_back()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signals.give_back()
        assert signal.getsignal(signal.SIGINT) is cancel_all
    finally:
        signal.signal(signal.SIGINT, before)
