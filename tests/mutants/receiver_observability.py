"""Mutants of the receiver checks RC-45 and RC-46."""

from __future__ import annotations

from typing import Any

from tests.mutants.mutant import Mutant
from tests.mutants.receiver_references import ReplayableReceiver
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver

from penstock.testing import Capabilities, MemoryFeeder
from penstock.testing.memory_source import MemoryConnection


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


MUTANTS = [
    Mutant(
        check="RC-45",
        words="127 records were put; the receiver reported 129 as stored",
        kind="receiver",
        make=StoresMarkers,
        feeder=MemoryFeeder,
        also=("RC-22",),  # its store waits in update_rate, on a clock that only the check advances
        capabilities=MEMORY_RECEIVER,
    ),
    Mutant(
        check="RC-46",
        words="reports a lag of 1, and the source had 0 more records",
        kind="receiver",
        make=GuessesLag,
        feeder=MemoryFeeder,
        capabilities=Capabilities(replayable=True, bounded=True),
    ),
    Mutant(
        check="RC-46",
        words="10 blocks report a lag of 0",
        kind="receiver",
        make=SaysNoLag,
        feeder=MemoryFeeder,
        capabilities=Capabilities(replayable=True, bounded=True),
    ),
]
