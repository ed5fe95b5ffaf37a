"""Mutants of the receiver checks RC-45 and RC-46."""

from __future__ import annotations

from typing import Any

from tests.mutants.receiver_references import ReplayableReceiver
from tests.mutants.references import MemoryReceiver, memory_mutant

from penstock_testing import Capabilities
from penstock_testing.memory_source import MemoryConnection


class StoresMarkers(MemoryReceiver):
    """Stores a marker among the records when its rate changes."""

    def on_rate_change(self, rate: float | None) -> None:
        self.store(f"rate {rate}")


class GuessesLag(ReplayableReceiver):
    """Reports the number of records in the source as its lag."""

    def metadata(self, connection: MemoryConnection, after: int) -> dict[str, Any]:
        return {"offset": after, "lag": after + connection.lag}


class SaysNoLag(ReplayableReceiver):
    """Reports a lag of 0 always."""

    def metadata(self, connection: MemoryConnection, after: int) -> dict[str, Any]:
        return {"offset": after, "lag": 0}


_REPLAYABLE = Capabilities(replayable=True, bounded=True)

MUTANTS = [
    memory_mutant(
        "RC-45",
        StoresMarkers,
        "127 records were put; the receiver reported 129 as stored",
        1.0,
        "RC-22",
        because="the store of a marker waits in update_rate, on a clock that only this check advances",
    ),
    memory_mutant(
        "RC-46", GuessesLag, "reports a lag of 1, and the source had 0 more records", capabilities=_REPLAYABLE
    ),
    memory_mutant("RC-46", SaysNoLag, "10 blocks report a lag of 0", capabilities=_REPLAYABLE),
]
