"""A program that writes what a source sends into tables; ``killed_programs`` kills its processes.

Each row is a number of the source, and the store that it came with: a number that was sent again, because its
acknowledgement was lost, has another store. The program recovers from its checkpoint, and retries failed batches.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from plugins.tables.tests.kind_of_table import Kind
from plugins.tables.tests.kinds_with_servers import POSTGRESQL, table_of
from plugins.tables.tests.writer_progress import Phase, Progress

from penstock import OutputMetadata, StopProgress, StreamingListener
from penstock_tables import to_delta, to_files, to_iceberg, to_sql
from penstock_tables.batch_identity import BatchId
from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.file_table import FileTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.partition_writer import DataFile
from penstock_tables.sql_table import SqlTableSettings
from penstock_tables.table import OpenTable, Table
from penstock_tables.table_output import TableOutput

SCHEMA = "number BIGINT, store BIGINT"
#: While this file with the kind of table at its end exists, commits succeed, and their answers are lost.
ANSWERS_ARE_LOST = "answers-are-lost"
#: The file with a line for each of them.
LOST_ANSWERS = "lost-answers"
#: The file with the number of batches that a graceful stop left.
BATCHES_LEFT = "batches-left"
STOP_S = 120
#: What ``--defect`` breaks: nothing; a batch is reported as written and is not; a batch has two identities.
DEFECTS = ("none", "drop", "repeat")
# One of this many batches has the defect.
_DEFECT_EVERY = 5


class LeftBatches(StreamingListener):
    """Notes what a graceful stop has left."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def onStopProgress(self, stopProgress: StopProgress) -> None:
        self._path.write_text(str(stopProgress.batches_left))


def program(folder: Path, kinds: Sequence[Kind], port: int, interval_s: float, master: str) -> None:
    """Run until SIGTERM."""
    from pyspark import SparkConf, SparkContext

    from penstock import StreamingContext, ThreadReceiver
    from penstock_cli.java import ensure_java

    class Acknowledging(ThreadReceiver[tuple[int, int]]):
        """Stores the numbers of the source, then acknowledges them."""

        def receive(self) -> None:
            while not self.isStopped():
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                        stream = connection.makefile("rwb")
                        while not self.isStopped() and (line := stream.readline()):
                            numbers = json.loads(line)
                            if numbers:
                                store = secrets.randbits(62)
                                self.store_all([(number, store) for number in numbers])
                            stream.write(b"%d\n" % (numbers[-1] + 1 if numbers else -1))
                            stream.flush()
                except OSError:
                    self.wait(0.1)

    ensure_java()
    conf = SparkConf().setMaster(master).setAppName("killed").set("spark.ui.enabled", "false")
    for key, value in {
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.streaming.concurrentJobs": str(len(kinds)),
        "spark.streaming.receiver.writeAheadLog.enable": "true",
        "spark.streaming.stopGracefullyOnShutdown": "true",
        "spark.streaming.gracefulStopTimeout": f"{STOP_S}s",
        "spark.streaming.receiverRestartDelay": "100ms",
        "spark.penstock.onFailedBatch": "retry",
        "spark.penstock.checkpoint.catchUp": "skip-empty",
        "spark.penstock.log.level": "INFO",
        "spark.local.dir": str(folder / "local"),
    }.items():
        conf.set(key, value)

    def create() -> StreamingContext:
        ssc = StreamingContext(SparkContext(conf=conf), interval_s)
        rows = ssc.receiverStream(Acknowledging())
        for kind in kinds:
            attach(rows, kind.table)
        return ssc

    ssc = StreamingContext.getOrCreate(str(folder / "checkpoint"), create)
    ssc.sparkContext.setLogLevel("OFF")
    with (folder / "applications").open("a") as applications:
        print(ssc.sparkContext.applicationId, file=applications)
    ssc.addStreamingListener(LeftBatches(folder / BATCHES_LEFT))
    ssc.run()


def attach(rows: Any, table: Table) -> None:
    """Define the output of a table."""
    match table:
        case DeltaTableSettings():
            to_delta(rows, table.location, schema=SCHEMA)
        case IcebergTableSettings():
            options = table.catalog_options
            to_iceberg(rows, table.identifier, schema=SCHEMA, catalog=table.catalog, catalog_options=options)
        case SqlTableSettings():
            password = None if table.password is None else table.password.reference
            to_sql(rows, table.url, table.table, schema=SCHEMA, password=password)
        case FileTableSettings():
            to_files(rows, table.location, schema=SCHEMA)


def progress_of(folder: Path, kind: Kind) -> Progress:
    """What the output of a kind of table does, shared with the program."""
    return Progress(folder / f"progress-{kind.name}")


def observe(folder: Path, kinds: Sequence[Kind]) -> None:
    """Share what the outputs do, and lose the answers of commits while ``ANSWERS_ARE_LOST`` has the kind of table."""
    kind_of = {kind.table.name: kind.name for kind in kinds}
    progress_by = {kind.table.name: progress_of(folder, kind) for kind in kinds}
    # What the outputs do is visible nowhere else.
    write, write_anew, commit = TableOutput.write, TableOutput._write, TableOutput._commit

    def noted_write(self: TableOutput, batch: BatchId, schema: Any, run: Any) -> OutputMetadata:
        progress = progress_by[self.table.name]
        progress.phase = Phase.TASKS
        try:
            written = write(self, batch, schema, run)
            progress.batches += 1
            return written
        finally:
            progress.phase = Phase.BETWEEN_BATCHES

    def noted_commit(self: TableOutput, opened: OpenTable, batch: BatchId, files: list[DataFile]) -> None:
        progress_by[self.table.name].phase = Phase.COMMIT
        commit(self, opened, batch, files)

    def write_without_answer(self: TableOutput, batch: BatchId, schema: Any, run: Any) -> OutputMetadata:
        written = write_anew(self, batch, schema, run)
        if (folder / f"{ANSWERS_ARE_LOST}-{kind_of[self.table.name]}").exists():
            with (folder / LOST_ANSWERS).open("a") as lost:
                print(self.table.name, file=lost)
            raise ConnectionResetError("the answer of the commit is lost")
        return written

    # In this process, which is the program's own.
    TableOutput.write = noted_write  # type: ignore[method-assign]
    TableOutput._write = write_without_answer  # type: ignore[method-assign]
    TableOutput._commit = noted_commit  # type: ignore[method-assign]


def break_outputs(defect: str) -> None:
    """Give the outputs a defect, which the comparison of the tables has to notice."""
    write = TableOutput.write

    def without_batch(self: TableOutput, batch: BatchId, schema: Any, run: Any) -> OutputMetadata:
        if batch.time_ms // 1000 % _DEFECT_EVERY:
            return write(self, batch, schema, run)
        return OutputMetadata(table=self.table.name)

    def twice(self: TableOutput, batch: BatchId, schema: Any, run: Any) -> OutputMetadata:
        if not batch.time_ms // 1000 % _DEFECT_EVERY:
            write(self, evolve(batch, time_ms=batch.time_ms - 1), schema, run)
        return write(self, batch, schema, run)

    if defect != "none":
        TableOutput.write = without_batch if defect == "drop" else twice  # type: ignore[method-assign]


def launch(folder: Path, kinds: Sequence[Kind], settings: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the program, in a session of its own."""
    command = [sys.executable, "-m", __name__, str(folder)]
    for kind in kinds:
        place: object = kind.folder
        if isinstance(kind.table, SqlTableSettings) and kind.name == POSTGRESQL:
            place = kind.table.url
        command.append(f"{kind.name}={place}")
    command += settings
    (folder / BATCHES_LEFT).unlink(missing_ok=True)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of all runs")
    parser.add_argument("kinds", nargs="+", metavar="KIND=FOLDER", help="of the tables; postgresql=URL")
    parser.add_argument("--port", type=int, required=True, help="of the source")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    parser.add_argument("--master", required=True, help="Spark's")
    parser.add_argument("--defect", default="none", choices=DEFECTS, help="of the outputs")
    options = parser.parse_args()
    kinds = [
        Kind(name, options.folder, table_of(place)) if name == POSTGRESQL else Kind(name, Path(place))
        for name, _, place in (argument.partition("=") for argument in options.kinds)
    ]
    break_outputs(options.defect)
    observe(options.folder, kinds)
    program(options.folder, kinds, options.port, options.interval, options.master)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main()
