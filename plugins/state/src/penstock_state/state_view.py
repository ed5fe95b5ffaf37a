"""``StateView``: the program's view of a stateful stream, whose RDDs contain the pairs in an internal form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import StorageLevel

from penstock.spi import MapPartitionsDStream, StatefulDStream


class StateView(MapPartitionsDStream):
    """The program's view of a stateful stream. Names, persists and checkpoints the stateful stream itself."""

    def __init__(
        self,
        state: StatefulDStream,
        function: Callable[[int, Iterable[Any]], Iterable[Any]],
        preserves_partitioning: bool = True,
    ) -> None:
        super().__init__(state, function, preserves_partitioning)
        self.state = state

    def set_name(self, name: str) -> None:
        self.state.set_name(name)
        super().set_name(name)

    def persist(self, level: StorageLevel) -> None:
        self.state.persist(level)

    def set_checkpoint_interval(self, interval_ms: int) -> None:
        self.state.set_checkpoint_interval(interval_ms)
