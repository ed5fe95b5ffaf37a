"""Each output of ``penstock-tables`` beside its library's own writer: ``python -m benchmarks.tables``.

The same batches are appended to a table by ``TableOutput`` and by the bare writer: ``write_deltalake``, PyIceberg's
``append``, SQLAlchemy's ``insert`` in a transaction per batch, ``pyarrow.parquet.write_table``. Both run in this
process, without Spark, which does the same work for either: what is compared is the cost of the guarantee, of fitting
the records to the columns, and of the commit. Rounds alternate. The table has the medians: rows/s by the clock and the
ratio, and the ratio of rows per second of processor time, which other load on the machine changes less.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock_tables.batch_identity import BatchId
from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.file_table import FileTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.partition_writer import PartitionWriter
from penstock_tables.sql_table import SqlTableSettings, engine_of
from penstock_tables.table import Table
from penstock_tables.table_output import TableOutput

KINDS = ("delta", "iceberg", "sql", "files")
FORMS = ("arrow", "tuples")
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("value", pa.float64())])
# Rows of an Arrow batch: Spark's default for mapInArrow.
_ARROW_ROWS = 10_000

Append = Callable[[int, Any], object]


@frozen
class Speed:
    """Rows per second by the clock, and per second of processor time."""

    per_s: float
    per_processor_s: float


def batches(count: int, rows: int, form: str) -> list[Any]:
    """Batches in Arrow, or as lists of tuples."""
    tables = [
        pa.table(
            [
                pa.array(range(number * rows, (number + 1) * rows)),
                pa.array([f"text of row {row:08d}" for row in range(rows)]),
                pa.array([row / 7 for row in range(rows)]),
            ],
            schema=SCHEMA,
        )
        for number in range(count)
    ]
    if form == "arrow":
        return tables
    return [list(zip(*(column.to_pylist() for column in table.columns), strict=True)) for table in tables]


def settings(kind: str, folder: Path) -> Table:
    """The table of a kind in a folder."""
    match kind:
        case "delta":
            return DeltaTableSettings(str(folder / "delta"))
        case "iceberg":
            options = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
            return IcebergTableSettings("bench.rows", "bench", options)
        case "sql":
            return SqlTableSettings(f"sqlite:///{folder}/bench.db", "rows")
    return FileTableSettings(str(folder / "files"))


def output(kind: str, folder: Path) -> Append:
    """Appends a batch with ``TableOutput``, as the one task and the driver do."""
    writes = TableOutput(settings(kind, folder), "rows", SCHEMA)

    def append(number: int, batch: Any) -> None:
        def run(writer: PartitionWriter) -> list[str]:
            if isinstance(batch, pa.Table):
                rows = writer.write_batches(batch.to_batches(_ARROW_ROWS))
                return [file for batch in rows for file in batch.column(0).to_pylist()]
            return list(writer.write_records(0, batch))

        writes.write(BatchId("bench", "rows", "run", 1000 * (number + 1)), SCHEMA, run)

    return append


def bare(kind: str, folder: Path) -> Append:
    """Appends a batch with the library alone."""
    table = settings(kind, folder)
    table.open(SCHEMA)

    def arrow(batch: Any) -> pa.Table:
        if isinstance(batch, pa.Table):
            return batch
        columns = zip(*batch, strict=True)
        return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)

    match table:
        case DeltaTableSettings():
            import deltalake

            return lambda _number, batch: deltalake.write_deltalake(table.location, arrow(batch), mode="append")
        case IcebergTableSettings():
            from pyiceberg.catalog import load_catalog

            catalog = load_catalog(table.catalog, **table.catalog_options)
            return lambda _number, batch: catalog.load_table(table.identifier).append(arrow(batch))
        case SqlTableSettings():
            target = table.reflected()

            def insert(_number: int, batch: Any) -> None:
                rows = batch.to_pylist() if isinstance(batch, pa.Table) else None
                rows = rows or [dict(zip(SCHEMA.names, row, strict=True)) for row in batch]
                with engine_of(table).begin() as connection:
                    connection.execute(target.insert(), rows)

            return insert
    from pyarrow import parquet

    return lambda number, batch: parquet.write_table(arrow(batch), folder / f"{number}.parquet", compression="zstd")


@contextmanager
def new_folder() -> Iterator[Path]:
    """A folder for one round."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-tables-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def measured(make: Callable[[str, Path], Append], kind: str, data: list[Any]) -> Speed:
    """The speed of a writer, without its first batch."""
    with new_folder() as folder:
        append = make(kind, folder)
        append(0, data[0])
        began_s, began_processor_s = time.perf_counter(), time.process_time()
        for number, batch in enumerate(data[1:], 1):
            append(number, batch)
        taken_s, processor_s = time.perf_counter() - began_s, time.process_time() - began_processor_s
    rows = sum(len(batch) for batch in data[1:])
    return Speed(rows / taken_s, rows / processor_s)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=KINDS, help=", ".join(KINDS))
    parser.add_argument("--rows", type=int, default=100_000, help="of a batch")
    parser.add_argument("--batches", type=int, default=6, help="of a round; the first one is not measured")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| table | records | rows/s | bare rows/s | ratio | ratio by processor time |")
    print("|---|---|---|---|---|---|")
    for kind in options.kinds:
        for form in FORMS:
            data = batches(options.batches, options.rows, form)
            pairs = [(measured(output, kind, data), measured(bare, kind, data)) for _ in range(options.rounds)]
            ours, peers = (statistics.median(pair[side].per_s for pair in pairs) for side in (0, 1))
            ratio = statistics.median(own.per_s / peer.per_s for own, peer in pairs)
            processor = statistics.median(own.per_processor_s / peer.per_processor_s for own, peer in pairs)
            print(f"| {kind} | {form} | {ours:,.0f} | {peers:,.0f} | {ratio:.2f} | {processor:.2f} |", flush=True)


if __name__ == "__main__":
    main()
