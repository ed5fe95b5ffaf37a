"""Reference plugins, one for each kind: they pass every check. Mutants derive from them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

from penstock import ThreadReceiver
from penstock.testing import Capabilities, MemoryFeeder, MemorySource
from penstock.testing.memory_source import MemoryConnection

#: What a ``MemoryReceiver`` can do.
MEMORY_RECEIVER = Capabilities(acknowledged=True, bounded=True)


def memory_mutant(check: str, make: type[MemoryReceiver], words: str, scale: float = 1.0, *also: str) -> Mutant:
    """A mutant that derives from ``MemoryReceiver``."""
    return Mutant(
        check=check,
        words=words,
        kind="receiver",
        make=make,
        feeder=MemoryFeeder,
        capabilities=MEMORY_RECEIVER,
        scale=scale,
        also=also,
    )


class MemoryReceiver(ThreadReceiver[str]):
    """Reads a ``MemorySource``, acknowledges what is stored, reconnects, and ends with its source."""

    def __init__(self, feeder: MemoryFeeder) -> None:
        self.address = feeder.source.address
        self.connection: MemoryConnection | None = None

    def receive(self) -> None:
        # What this raises restarts the receiver: a connection that is refused or breaks, a store that fails.
        self.connection = connection = MemorySource.find(self.address).connect()
        try:
            # Asked after the connection is visible to onStop: a stop either is seen here or closes the connection.
            while not self.isStopped() and (found := connection.read()):
                self.take(connection, found)
        finally:
            connection.close()
        if not self.isStopped():
            self.stop("the source has ended")

    def take(self, connection: MemoryConnection, found: list[tuple[int, str]]) -> None:
        """Store records, then acknowledge them."""
        self.store_all([record for _, record in found])
        for position, _ in found:
            connection.acknowledge(position)

    def onStop(self) -> None:
        if self.connection is not None:
            self.connection.close()
        super().onStop()
