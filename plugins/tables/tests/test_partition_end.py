"""A task that commits writes nothing if its executor is lost before it has read its whole input.

Spark's workers take a connection that breaks for the end of the data, so the records up to there would be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from plugins.tables.tests.kind_of_table import Kind, ordered
from plugins.tables.tests.test_table_output import output
from pyspark.sql.types import LongType, StringType, StructType

from penstock_tables import TableWriteError

ROWS = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
CONTEXT = SimpleNamespace(appName="shop", applicationId="local-1", getLocalProperty=lambda _key: "run-1")
TIME = datetime.fromtimestamp(1_700_000_000)

Function = Callable[[Iterable[Any]], Iterable[Any]]


class Executor:
    """Passes the items that one Python function yields on to the next one, until it is lost.

    Args:
        is_lost_after: number of items.
    """

    def __init__(self, is_lost_after: int | None = None) -> None:
        self._is_lost_after = is_lost_after

    def passes_on(self, items: Iterable[Any]) -> Iterator[Any]:
        return islice(items, self._is_lost_after)


class Records:
    """An RDD. Functions one after the other run in one worker; ``coalesce`` passes their records through the JVM."""

    context = CONTEXT

    def __init__(self, partitions: Sequence[Iterable[Any]], executor: Executor) -> None:
        self._partitions = partitions
        self._executor = executor

    def getNumPartitions(self) -> int:
        return len(self._partitions)

    def mapPartitions(self, function: Function) -> Records:
        return Records([function(records) for records in self._partitions], self._executor)

    def mapPartitionsWithIndex(self, function: Callable[[int, Iterable[Any]], Iterable[Any]]) -> Records:
        return Records([function(index, records) for index, records in enumerate(self._partitions)], self._executor)

    def coalesce(self, partitions: int) -> Records:
        assert partitions == 1
        together = (record for records in self._partitions for record in records)
        return Records([self._executor.passes_on(together)], self._executor)

    def collect(self) -> list[Any]:
        return [record for records in self._partitions for record in records]


class Frame:
    """A DataFrame of one partition. Each ``mapInArrow`` runs in a worker of its own."""

    schema = StructType().add("key", StringType()).add("n", LongType())
    sparkSession = SimpleNamespace(sparkContext=CONTEXT)

    def __init__(self, batches: Iterable[pa.RecordBatch], executor: Executor) -> None:
        self._batches = batches
        self._executor = executor

    def coalesce(self, partitions: int) -> Frame:
        assert partitions == 1
        return self

    def mapInArrow(self, function: Function, _schema: str) -> Frame:
        return Frame(function(self._executor.passes_on(self._batches)), self._executor)

    def collect(self) -> list[Any]:
        return [SimpleNamespace(**row) for batch in self._batches for row in batch.to_pylist()]


def write_records(kind: Kind, executor: Executor) -> None:
    output(kind.table).write_records(TIME, Records([ROWS[:3], [], ROWS[3:]], executor))  # type: ignore[arg-type]


def write_frame(kind: Kind, executor: Executor) -> None:
    columns = pa.table({"key": [key for key, _ in ROWS], "n": [n for _, n in ROWS]})
    frame = Frame(columns.to_batches(1), executor)
    output(kind.table).write_frame(frame, round(TIME.timestamp() * 1000))  # type: ignore[arg-type]


Write = Callable[[Kind, Executor], None]
WRITES = pytest.mark.parametrize("write", [write_records, write_frame])


@WRITES
# With three partitions, the last end is the seventh item; with one, the fifth.
@pytest.mark.parametrize("read", [0, 1, 3, 4])
def test_nothing_is_written_after_a_part_of_the_input(write: Write, read: int, tmp_path: Path) -> None:
    kind = Kind("sql", tmp_path)
    with pytest.raises(TableWriteError, match="the input ended before the ends"):
        write(kind, Executor(read))
    assert kind.rows() == []
    write(kind, Executor())
    write(kind, Executor())
    assert kind.rows() == ordered({"key": key, "n": n} for key, n in ROWS)


def test_a_part_is_recognized_between_partitions_and_before_the_last_end(tmp_path: Path) -> None:
    kind = Kind("sql", tmp_path)
    for read in (5, 6):
        with pytest.raises(TableWriteError, match="the ends of 1 of its partitions"):
            write_records(kind, Executor(read))
    assert kind.rows() == []
    write_records(kind, Executor(7))
    assert len(kind.rows()) == len(ROWS)
