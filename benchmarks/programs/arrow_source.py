"""A Python data source that yields Arrow: the fastest way to a socket that Structured Streaming offers Python.

A process receives the lines and writes them into Arrow files, as Penstock's receiver does; the tasks map these files
into memory and yield their record batches. Offsets are numbers of files.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from benchmarks.programs.arrow_files import LinesFile, record_batches, split_evenly, start_receiver


class ArrowReader(DataSourceStreamReader):
    """Lists the files that are complete, and divides those of a batch among the tasks.

    Args:
        port: port of 127.0.0.1 that sends the lines.
        folder: where the files are written.
        cores: number of tasks per batch.
        interval_s: batch interval.
    """

    def __init__(self, port: int, folder: str, cores: int, interval_s: float) -> None:
        self._port = port
        self._folder = folder
        self._cores = cores
        self._interval_s = interval_s
        self._receiver: subprocess.Popen[bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks only read.
        return {**self.__dict__, "_receiver": None}

    def initialOffset(self) -> dict[str, int]:
        """The first file."""
        return {"file": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # as before PySpark 4.2, without limits
        """The number of complete files. The first call starts the receiver."""
        if self._receiver is None:
            self._receiver = start_receiver(self._port, self._folder, self._interval_s)
        return {"file": len(self._files())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One partition per task."""
        shares = split_evenly(self._files()[start["file"] : end["file"]], self._cores)
        return [InputPartition(share) for share in shares]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition."""
        return record_batches(partition.value)

    def commit(self, end: dict[str, int]) -> None:
        """Keep the files; the program deletes their folder."""

    def stop(self) -> None:
        """End the receiver."""
        if self._receiver is not None:
            self._receiver.kill()
            self._receiver.wait()

    def _files(self) -> list[LinesFile]:
        return LinesFile.all_in(Path(self._folder))


class ArrowSource(DataSource):
    """The data source ``arrow-lines`` with the options ``port``, ``folder``, ``cores`` and ``interval``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "arrow-lines"

    def schema(self) -> str:
        """One column of text."""
        return "value string"

    def streamReader(self, schema: Any) -> ArrowReader:
        """The reader of the port."""
        options = self.options
        return ArrowReader(int(options["port"]), options["folder"], int(options["cores"]), float(options["interval"]))
