"""Reference plugins, one for each kind: they pass every check. Mutants derive from them."""

from __future__ import annotations

from penstock import ThreadReceiver
from penstock.testing import MemoryFeeder, MemorySource
from penstock.testing.memory_source import MemoryConnection


class MemoryReceiver(ThreadReceiver[str]):
    """Reads a ``MemorySource``; acknowledges what is stored, and reconnects."""

    def __init__(self, feeder: MemoryFeeder) -> None:
        self.address = feeder.source.address
        self.connection: MemoryConnection | None = None

    def receive(self) -> None:
        connection = self.connection = MemorySource.find(self.address).connect()
        while found := connection.read():
            self.store_all([record for _, record in found])
            for position, _ in found:
                connection.acknowledge(position)

    def onStop(self) -> None:
        if self.connection is not None:
            self.connection.close()
        super().onStop()
