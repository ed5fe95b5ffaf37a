"""The demonstration ``penstock demo tables``: the lines in a folder of Parquet files, which stays there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from attrs import frozen

from penstock import DStream
from penstock_tables.output_functions import to_files


@frozen
class TableOfLines:
    """A table of lines.

    Attributes:
        folder: where it is.
        began_s: when the command began, s since the epoch.
    """

    folder: Path
    began_s: float

    def attach(self, lines: DStream[str]) -> None:
        """Write each line with its number of words."""
        rows = lines.map(lambda line: (line, len(line.split())))
        to_files(rows, str(self.folder), name="lines", schema="line STRING, words BIGINT")

    def report(self) -> str:
        """Count the rows by their files, and say how to query them."""
        from pyarrow import dataset

        manifests = sorted(self.folder.glob("_penstock/manifests/*/*/*.json"))
        if not manifests:
            return "no batch was written"
        files = [
            str(self.folder / file["path"]) for path in manifests for file in json.loads(path.read_text())["files"]
        ]
        rows = dataset.dataset(files).count_rows()
        first_s = min(path.stat().st_mtime for path in manifests) - self.began_s
        return (
            f"table: {rows:,} rows of {len(manifests)} batches in {self.folder}; its first rows could be queried "
            f"{first_s:.1f} s after the command began\n"
            f"query: duckdb -c \"SELECT words, count(*) FROM '{self.folder}/batch=*/*.parquet' GROUP BY words\""
        )


@contextmanager
def tables() -> Iterator[TableOfLines]:
    """Give the output of the demonstration. Its folder stays after the end."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-tables-"))
    yield TableOfLines(folder, psutil.Process().create_time())
