"""Mutants of the receiver checks RC-01 to RC-09."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import warnings
from typing import ClassVar

from tests.mutants.receiver_references import BareReceiver
from tests.mutants.references import MemoryReceiver, memory_mutant

from penstock import ReceiverStoppedError, ThreadReceiver
from penstock_testing import MemoryFeeder, MemorySource


class ConnectsInConstructor(MemoryReceiver):
    """Looks for a free port in its constructor."""

    def __init__(self, feeder: MemoryFeeder) -> None:
        super().__init__(feeder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]


class StartsThreadInConstructor(MemoryReceiver):
    """Starts a thread in its constructor."""

    def __init__(self, feeder: MemoryFeeder) -> None:
        super().__init__(feeder)
        threading.Thread(target=threading.Event().wait, args=(0.2,), name="eager", daemon=True).start()


class WaitsInStart(MemoryReceiver):
    """Waits in onStart for the first answer of the source."""

    def onStart(self) -> None:
        source = MemorySource.find(self.address)
        # The mutant waits for a state of the test source that nothing else waits for.
        with source._changed:
            source._changed.wait_for(lambda: source._state != "paused")
        super().onStart()


class StartsAgain(MemoryReceiver):
    """Starts a second thread when it is started a second time."""

    def onStart(self) -> None:
        try:
            super().onStart()
        except RuntimeError:
            threading.Thread(target=threading.Event().wait, name="second reader", daemon=True).start()


class NeedsStart(MemoryReceiver):
    """Its onStop needs what its onStart has made."""

    done: threading.Event

    def onStart(self) -> None:
        self.done = threading.Event()
        super().onStart()

    def onStop(self) -> None:
        self.done.set()
        super().onStop()


class StopsOnce(MemoryReceiver):
    """Its onStop takes away what it needs."""

    handles: list[str] | None = None

    def onStart(self) -> None:
        self.handles = ["handle"]
        super().onStart()

    def onStop(self) -> None:
        super().onStop()
        if self.handles is not None:
            self.handles.pop()


class NeverWakes(MemoryReceiver):
    """Does not close its connection."""

    def onStop(self) -> None:
        ThreadReceiver.onStop(self)


class ForgetsThread(BareReceiver):
    """Only forgets its thread when it is stopped: the thread waits in ``read`` for ever."""

    def read_all(self) -> None:
        own = self.thread
        connection = MemorySource.find(self.address).connect()
        while (entries := connection.read()) and self.thread is own and not self.isStopped():
            self.store_all([record for _, record in entries])
            for position, _ in entries:
                connection.acknowledge(position)

    def onStop(self) -> None:
        self.thread = None


class ReusesConnection(MemoryReceiver):
    """Connects once in its life."""

    def receive(self) -> None:
        if self.connection is None:
            super().receive()
        while not self.wait(1):
            pass


class LeavesDescriptors(MemoryReceiver):
    """Opens a pipe that nobody closes."""

    def onStart(self) -> None:
        os.pipe()
        super().onStart()


class LeavesProcesses(MemoryReceiver):
    """Starts a process that nobody ends."""

    processes: ClassVar[list[subprocess.Popen[bytes]]] = []

    def onStart(self) -> None:
        self.processes.append(subprocess.Popen(["sleep", "5"]))
        super().onStart()


class Prints(MemoryReceiver):
    """Says on standard output what it does."""

    def receive(self) -> None:
        print("connecting to", self.address)
        super().receive()


class PrintsErrors(MemoryReceiver):
    """Prints to standard error what it does; its log is allowed."""

    def receive(self) -> None:
        logging.getLogger("client").error("logged, which is right")
        print("lost:", self.address, file=sys.stderr)
        super().receive()


class WritesDirectly(MemoryReceiver):
    """Writes to the descriptor of standard output, as a library in C does."""

    def receive(self) -> None:
        os.write(1, f"% connected to {self.address}\n".encode())
        super().receive()


class SetsUp(MemoryReceiver):
    """Sets the process up as if it were its own."""

    def onStart(self) -> None:
        os.environ["MEMORY_ADDRESS"] = self.address
        os.umask(0)
        os.chdir("/")
        warnings.simplefilter("ignore")
        logging.basicConfig(level=logging.DEBUG)
        super().onStart()


class StoresLate(MemoryReceiver):
    """Has a thread that does not notice the stop at once."""

    def onStop(self) -> None:
        super().onStop()
        threading.Thread(target=self._store_late, daemon=True).start()

    def _store_late(self) -> None:
        for _ in range(20):
            threading.Event().wait(0.01)
            if not self.isStopped():
                return  # it was a restart
            with contextlib.suppress(ReceiverStoppedError):
                self.store("late")


# Checks that stop the receiver while it reads, and need the stop to end.
_NEVER_STOPS = ("RC-03", "RC-05", "RC-07", "RC-08", "RC-30", "RC-33", "RC-45")

MUTANTS = [
    memory_mutant("RC-01", ConnectsInConstructor, "called socket.bind"),
    memory_mutant("RC-01", StartsThreadInConstructor, "thread 'eager' is alive"),
    memory_mutant("RC-02", WaitsInStart, "onStart has not returned", scale=0.05),
    memory_mutant("RC-03", StartsAgain, "second reader", scale=0.1),
    memory_mutant("RC-04", NeedsStart, "onStop raised AttributeError"),
    memory_mutant("RC-05", StopsOnce, "onStop raised IndexError"),
    memory_mutant(
        "RC-06",
        NeverWakes,
        "has not ended",
        0.05,
        "PK-13",
        "PK-14",
        *_NEVER_STOPS,
        because="each stops or restarts the receiver while it reads",
    ),
    memory_mutant(
        "RC-06", ForgetsThread, "thread 'bare reader'", 0.05, "RC-08", because="a thread that remains is a leak"
    ),
    memory_mutant(
        "RC-07",
        ReusesConnection,
        "after 1 restarts the receiver stores no record",
        0.1,
        "RC-26",
        because="the receiver reconnects by a restart",
    ),
    memory_mutant("RC-08", LeavesDescriptors, "the number of open descriptors grew by", scale=0.1),
    memory_mutant("RC-08", LeavesProcesses, " runs; process ", 0.1),
    memory_mutant("RC-08", Prints, "'connecting to memory-"),
    memory_mutant("RC-08", PrintsErrors, "'lost: memory-"),
    memory_mutant("RC-08", WritesDirectly, "% connected to memory-"),
    memory_mutant("RC-08", SetsUp, "os.environ changed: MEMORY_ADDRESS; "),
    memory_mutant(
        "RC-09",
        StoresLate,
        "called store after its stop",
        1.0,
        "RC-27",
        because="a record that is stored between two attempts resets the delay",
    ),
]
