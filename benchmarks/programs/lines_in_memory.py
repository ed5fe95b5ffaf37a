"""A streaming source whose tasks have the lines as Arrow batches already: the limit of a Python data source.

Tasks import this module, so that a worker makes the batches once.
"""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from benchmarks.data import Lines

_READ_BYTES = 1 << 20
# As in Penstock's blocks, when lines arrive as fast as they are taken.
_LINES_PER_BATCH, _LINES_PER_PARTITION = 16_384, 174_000


class LinesRange(InputPartition):
    """Some lines of a batch.

    Args:
        first: number of the first line.
        last: number of the line after the last one.
    """

    def __init__(self, first: int, last: int) -> None:
        super().__init__(None)
        self.first = first
        self.last = last


class MemoryReader(DataSourceStreamReader):
    """Counts the lines that arrive at a socket, and has the tasks yield the same lines from their memory.

    Args:
        port: of 127.0.0.1, where the lines are.
        seed: of the lines.
    """

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._seed = seed
        self._arrived: list[int] | None = None

    def initialOffset(self) -> dict[str, int]:
        """The first line."""
        return {"line": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # as before PySpark 4.2, without limits
        """The line after the last one that has arrived."""
        if self._arrived is None:
            self._arrived = [0]
            threading.Thread(target=self._receive, args=(self._arrived,), daemon=True).start()
        return {"line": self._arrived[0]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Share the lines of a batch among tasks."""
        firsts = range(start["line"], end["line"], _LINES_PER_PARTITION)
        return [LinesRange(first, min(first + _LINES_PER_PARTITION, end["line"])) for first in firsts]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a partition."""
        lines, period = _repeated(self._seed)
        for first in range(partition.first, partition.last, _LINES_PER_BATCH):
            yield lines.slice(first % period, min(_LINES_PER_BATCH, partition.last - first))

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""

    def _receive(self, arrived: list[int]) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            while data := connection.recv(_READ_BYTES):
                arrived[0] += data.count(b"\n")


class MemorySource(DataSource):
    """The data source ``memory-lines`` with the options ``port`` and ``seed``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "memory-lines"

    def schema(self) -> str:
        """One column of text."""
        return "value string"

    def streamReader(self, schema: Any) -> MemoryReader:
        """The reader of the port."""
        return MemoryReader(int(self.options["port"]), int(self.options["seed"]))


@functools.cache
def _repeated(seed: int) -> tuple[pa.RecordBatch, int]:
    """The lines of a seed, repeated so that a slice can begin anywhere in the first period; and the period."""
    lines = Lines(seed)
    texts = lines.encoded(0, lines.period + _LINES_PER_BATCH).decode().splitlines()
    return pa.RecordBatch.from_pydict({"value": texts}), lines.period
