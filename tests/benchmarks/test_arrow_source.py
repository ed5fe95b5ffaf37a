"""The data source that yields Arrow, without Spark: offsets, partitions, and tasks that read what was pickled."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.data import Lines
from benchmarks.programs.arrow_source import ArrowReader
from benchmarks.sender import Sender

LINES = Lines(seed=5)


@contextmanager
def reading(folder: Path, num_lines: int) -> Iterator[ArrowReader]:
    with Sender(LINES, num_lines) as sender:
        reader = ArrowReader(sender.ports[0], str(folder), cores=2, interval_s=0.1)
        try:
            yield reader
        finally:
            reader.stop()


def lines_between(reader: ArrowReader, start: dict[str, int], end: dict[str, int]) -> list[str]:
    task = pickle.loads(pickle.dumps(reader))
    partitions = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    return [line for part in partitions for batch in task.read(part) for line in batch.column(0).to_pylist()]


@pytest.mark.timeout(60)
def test_batches_have_every_line_once_and_in_order(tmp_path: Path) -> None:
    received, start = list[str](), {"file": 0}
    with reading(tmp_path, 5000) as reader:
        assert reader.initialOffset() == start
        while len(received) < 5000:
            end = reader.latestOffset()
            received += lines_between(reader, start, end)
            start = end
            time.sleep(0.01)
    assert received == LINES.encoded(0, 5000).decode().splitlines()
    assert [len(reader.partitions({"file": 0}, start)), len(reader.partitions(start, start))] == [2, 2]
