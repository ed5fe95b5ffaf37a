"""``ReceiverWorkers``: which threads and processes are a receiver's, and how they end."""

from __future__ import annotations

import subprocess
from typing import Any

from penstock import Receiver, ThreadReceiver
from penstock.testing import ReceiverHarness
from penstock.testing.receiver_workers import ReceiverWorkers


class Waits(ThreadReceiver[int]):
    def receive(self) -> None:
        while not self.wait(0.001):
            pass


class HasProcess(Receiver[int]):
    process: subprocess.Popen[bytes]

    def onStart(self) -> None:
        self.process = subprocess.Popen(["sleep", "60"])


def test_supervised_thread_is_the_receivers_and_its_end_is_an_error() -> None:
    harness = ReceiverHarness(Waits())
    with ReceiverWorkers(harness.receiver) as workers, harness:
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
