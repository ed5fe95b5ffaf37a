"""Readers for tests: as Spark calls them, over a receiver that the test has."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType
from tests.helpers import wait_for

from penstock import Receiver
from penstock_structured import source_process
from penstock_structured.data_source import PenstockStreamReader
from penstock_structured.options import Source, SourceOptions

TEXT = StructType([StructField("value", StringType())])
CONF = {
    "spark.streaming.blockInterval": "5ms",
    "spark.penstock.receiver.maxRestarts": "1",
}


class Idle(Receiver[Any]):
    def onStart(self) -> None:
        """The test stores."""


class Unstartable(Receiver[Any]):
    def onStart(self) -> None:
        raise OSError("no route to the source")


class Given(Source):
    """A source whose receiver the test has."""

    receiver: Receiver[Any] = Idle()

    def make_receiver(self) -> Receiver[Any]:
        receiver = type(self).receiver
        return Unstartable() if isinstance(receiver, Unstartable) else receiver


Make = Callable[..., PenstockStreamReader]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    # It is about a process of the source's own.
    monkeypatch.setattr(source_process, "prepare", lambda _stop: None)
    made: list[PenstockStreamReader] = []

    def make(
        receiver: Receiver[Any] | None = None,
        schema: StructType = TEXT,
        conf: dict[str, str] | None = None,
        **options: Any,
    ) -> PenstockStreamReader:
        Given.receiver = receiver or Idle()
        source = Given(SourceOptions("socket", str(tmp_path / "query"), **options), {}, {**CONF, **(conf or {})})
        made.append(PenstockStreamReader(source, schema))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def started(reader: PenstockStreamReader, start: dict[str, int] | None = None) -> tuple[dict[str, int], Receiver[Any]]:
    """Have the reader start its receiver; return the offset and the receiver."""
    offset = reader.initialOffset() if start is None else start
    assert reader.latestOffset(offset, ReadAllAvailable()) is not None

    wait_for(Given.receiver.isStarted, "the receiver")
    return offset, Given.receiver


def rows(reader: PenstockStreamReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, Any]]:
    """What tasks read, each with a reader of its own."""
    partitions = reader.partitions(start, end)
    task = pickle.loads(pickle.dumps(reader))
    return [row for partition in partitions for batch in task.read(partition) for row in batch.to_pylist()]


def values(reader: PenstockStreamReader, start: dict[str, int], end: dict[str, int]) -> list[Any]:
    return [row["value"] for row in rows(reader, start, end)]
