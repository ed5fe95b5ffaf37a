"""``ReceiverWorkers``: which threads and processes are a receiver's, and how they end."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from penstock import Receiver, ThreadReceiver
from penstock_testing import ReceiverHarness
from penstock_testing.receiver_workers import ReceiverWorkers


class Waits(ThreadReceiver[int]):
    def receive(self) -> None:
        while not self.wait(0.001):
            pass


class Blocks(ThreadReceiver[int]):
    arrived: threading.Event

    def onStart(self) -> None:
        self.arrived = threading.Event()
        super().onStart()

    def onStop(self) -> None:
        self.arrived.set()
        super().onStop()

    def receive(self) -> None:
        self.arrived.wait()
        self.store(1)


class HasProcess(Receiver[int]):
    process: subprocess.Popen[bytes]

    def onStart(self) -> None:
        self.process = subprocess.Popen(["sleep", "60"])


def test_supervised_thread_is_the_receivers_and_its_end_is_an_error() -> None:
    harness = ReceiverHarness(Waits())
    with ReceiverWorkers(harness.receiver, can_end=True) as workers, harness:
        assert workers.alive() == ["thread 'Waits-0'"]
        assert workers.end_threads() == ["thread 'Waits-0'"]
        harness.until_error("ended this thread")


def test_process_is_killed() -> None:
    harness = ReceiverHarness(HasProcess())
    receiver: Any = harness.receiver
    with ReceiverWorkers(receiver) as workers, harness:
        assert workers.alive() == [f"process {receiver.process.pid}"]
        workers.kill_processes()
        assert receiver.process.wait(10) == -9
        assert workers.alive() == []


def test_blocked_thread_ends_when_it_wakes() -> None:
    harness = ReceiverHarness(Blocks())
    receiver: Any = harness.receiver
    with ReceiverWorkers(receiver, can_end=True) as workers, harness:
        # Holds the race open: `threading` does not say how many threads wait.
        harness.until(lambda: receiver.arrived._cond._waiters)
        workers.end_threads()
        receiver.arrived.set()
        harness.until_error("ended this thread")
        assert harness.records == []


def test_other_threads_that_are_traced_continue_while_the_ended_one_is_blocked() -> None:
    # In another process: what this guards against is a loop in the interpreter, which no time limit of pytest ends.
    program = f"""
import sys, threading
from {__name__} import test_blocked_thread_ends_when_it_wakes
def trace(*_arguments):
    return trace
threading.settrace(trace)
sys.settrace(trace)
test_blocked_thread_ends_when_it_wakes()
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=root)
