"""Receives lines from a socket and writes them into Arrow files, as they come: what an engine's receiver has to do.

usage: arrow_files.py PORT FOLDER SECONDS

A file is written after that many seconds, or when there is much to write. Its name says how many lines and record
batches it has; it appears whole. The process ends with the connection.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

# As Penstock's receiver of lines.
_SPLIT_BYTES, _FILE_BYTES = 1 << 20, 16 << 20
# Spark's block interval.
_FILE_S = 0.2

#: A file, and the number of a record batch in it.
Position = tuple[str, int]


@frozen
class LinesFile:
    """A file of lines.

    Attributes:
        path: its path.
        records: how many lines it has.
        batches: in how many record batches.
    """

    path: str
    records: int
    batches: int

    @classmethod
    def all_in(cls, folder: Path) -> list[Self]:
        """The files of a folder, in the order in which they were written."""
        return [cls(str(path), *map(int, path.stem.split("-")[1:])) for path in sorted(folder.glob("*.arrow"))]


def start_receiver(port: int, folder: str, interval_s: float) -> subprocess.Popen[bytes]:
    """Start a process that receives lines and writes files, at least two per batch interval."""
    seconds = min(_FILE_S, interval_s / 2)
    return subprocess.Popen([sys.executable, __file__, str(port), folder, str(seconds)])


def split_evenly(files: Sequence[LinesFile], number: int) -> list[list[Position]]:
    """Divide the record batches of files among a number of tasks, in their order."""
    positions = [(file.path, position) for file in files for position in range(file.batches)]
    bounds = [len(positions) * share // number for share in range(number + 1)]
    return [positions[first:end] for first, end in itertools.pairwise(bounds)]


def record_batches(positions: Iterable[Position]) -> Iterator[pa.RecordBatch]:
    """Memory-mapped record batches of a task."""
    for path, in_file in itertools.groupby(positions, itemgetter(0)):
        with pa.memory_map(path) as source:
            reader = pa.ipc.open_file(source)
            yield from (reader.get_batch(position) for _path, position in in_file)


def receive(port: int, folder: Path, longest_s: float) -> None:
    """Receive and write until the connection ends."""
    buffer, filled, number = bytearray(2 * _SPLIT_BYTES), 0, 0
    columns: list[Any] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        due_s = time.monotonic() + longest_s
        while True:
            connection.settimeout(max(due_s - time.monotonic(), 0.001))
            try:
                received = connection.recv_into(memoryview(buffer)[filled:])
                filled += received
                has_ended = not received
            except TimeoutError:
                has_ended = False
            is_due = has_ended or time.monotonic() >= due_s
            if (filled >= _SPLIT_BYTES or is_due) and (end := buffer.rfind(b"\n", 0, filled)) >= 0:
                columns.append(_lines(memoryview(buffer)[:end]))
                buffer[: filled - end - 1] = buffer[end + 1 : filled]
                filled -= end + 1
            if is_due or sum(column.nbytes for column in columns) >= _FILE_BYTES:
                if columns:
                    _write(folder, number, columns)
                columns, number, due_s = [], number + 1, time.monotonic() + longest_s
            if has_ended:
                return


def _lines(data: memoryview) -> Any:
    offsets = pa.array([0, len(data)], pa.int32()).buffers()[1]
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)])
    return pc.split_pattern(whole, b"\n").values.cast(pa.string())


def _write(folder: Path, number: int, columns: list[Any]) -> None:
    table = pa.table({"value": pa.chunked_array(columns)})
    unfinished = folder / "unfinished"
    with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    unfinished.rename(folder / f"{number:08}-{table.num_rows}-{len(columns)}.arrow")


if __name__ == "__main__":
    receive(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
