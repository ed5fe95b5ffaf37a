"""``TableOutput``: writes each batch into a table once. The driver decides and commits; tasks write the records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import define, field

from penstock import OutputMetadata, PenstockError
from penstock.spi import get_logger, reason, text_of
from penstock_tables.batch_identity import BatchId, look_up, writer_number
from penstock_tables.partition_end import ENCODED, decoded, encoded, until_ends, with_end
from penstock_tables.partition_writer import DataFile, PartitionWriter, delete_others
from penstock_tables.table import (
    Commit,
    CommitConflictError,
    MissingTableError,
    OpenTable,
    Table,
    TableWriteError,
)
from penstock_tables.table_schemas import arrow_schema_of, plan

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

log = get_logger("tables")

# Commits of other writers may come first this many times.
_ATTEMPTS = 20
# Parquet's size for a record of a batch varies little from batch to batch.
_HEADROOM = 1.2


@define(eq=False)
class TableOutput:
    """The function of an output operation.

    Attributes:
        table: where the batches go.
        output: name of the output.
        schema: the columns; ``None`` for those of the DataFrames, or of the table.
        adds_columns: whether columns that the table lacks are added.
        dead_letter: folder for records that do not fit; ``None`` fails the batch.
        target_bytes: a batch gets fewer files than partitions if they would be smaller.
    """

    table: Table
    output: str
    schema: pa.Schema | None = None
    adds_columns: bool = False
    dead_letter: str | None = None
    target_bytes: int = 16 << 20
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)
    # Whether this process has written a batch into the table.
    _is_known: bool = field(default=False, init=False, repr=False)
    # Size of the last batch, 0 before the first.
    _last_bytes: int = field(default=0, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # Checkpoints pickle the output with the program.
        settings = ("table", "output", "schema", "adds_columns", "dead_letter", "target_bytes")
        return {name: getattr(self, name) for name in settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def write_frame(self, frame: DataFrame, batch_time_ms: int) -> OutputMetadata:
        """Write a batch of DataFrames: a function for ``foreachBatch``."""

        def run(writer: PartitionWriter) -> list[str]:
            if self.table.commits_in_task:
                whole = frame.coalesce(1).mapInArrow(encoded, ENCODED)
                files = whole.mapInArrow(lambda rows: writer.write_batches(decoded(rows)), "file string")
            else:
                wanted = self._partitions()
                narrowed = frame if wanted is None else frame.coalesce(wanted)
                files = narrowed.mapInArrow(writer.write_batches, "file string")
            return [row.file for row in files.collect()]

        return self.write(
            _batch_id(frame.sparkSession.sparkContext, self.output, batch_time_ms), arrow_schema_of(frame.schema), run
        )

    def write_records(self, batch_time: datetime, records: RDD[Any]) -> OutputMetadata | None:
        """Write a batch of records: a function for ``foreachRDD``."""

        def run(writer: PartitionWriter) -> list[str]:
            if self.table.commits_in_task:
                partitions = records.getNumPartitions()
                whole = records.mapPartitions(with_end).coalesce(1)
                return whole.mapPartitionsWithIndex(
                    lambda index, marked: writer.write_records(index, until_ends(marked, partitions))
                ).collect()
            wanted = self._partitions()
            narrowed = records if wanted is None else records.coalesce(wanted)
            return narrowed.mapPartitionsWithIndex(writer.write_records).collect()

        if not records.getNumPartitions():
            return None
        return self.write(
            _batch_id(records.context, self.output, round(batch_time.timestamp() * 1000)), self.schema, run
        )

    def write(
        self, batch: BatchId, schema: pa.Schema | None, run: Callable[[PartitionWriter], list[str]]
    ) -> OutputMetadata:
        """Write a batch, unless the table has it.

        Args:
            batch: the batch.
            schema: columns of the batch; ``None`` for those of the table.
            run: calls a function with each partition of the batch, in tasks, and returns what they yield.

        Returns:
            What monitoring shows of the batch: the table, the numbers of rows, refused rows, files and bytes, and the
            seconds that tasks and commit took; only the table and its dataset if it had the batch.

        Raises:
            PenstockError: the batch was not written; the message names table, batch and what to do.
        """
        with self._lock:
            try:
                return self._write(batch, schema, run)
            except PenstockError:
                raise
            except Exception as error:
                if self._is_written(batch):
                    # The answer to the commit was lost.
                    return OutputMetadata(**self._table_metadata)
                raise TableWriteError(
                    f"{batch.description} not written to {self.table.name}: {reason(error)}. With a checkpoint "
                    "directory the batch runs again: after a restart, or earlier with "
                    "spark.penstock.onFailedBatch=retry"
                ) from error

    def _write(
        self, batch: BatchId, schema: pa.Schema | None, run: Callable[[PartitionWriter], list[str]]
    ) -> OutputMetadata:
        started = time.monotonic()
        opened = self._open(batch, schema)
        place = self.table.place
        number = self._number(opened, batch)
        if number is None:
            return OutputMetadata(**self._table_metadata)
        opened, columns = self._with_columns(opened, schema)
        written = [DataFile.from_json(text) for text in run(opened.writer(batch, columns, number, self.dead_letter))]
        if self.table.commits_in_task and not written:
            # Another attempt of the task has committed.
            return OutputMetadata(**self._table_metadata)
        tasks_s = time.monotonic() - started
        if self.dead_letter is not None and not self.table.commits_in_task:
            # Those of earlier attempts, and of tasks that failed.
            letters = {file.dead_letter for file in written}
            delete_others(f"{self.dead_letter}/{batch.file_prefix}", letters)
        files = [file for file in written if file.rows]
        self._last_bytes = sum(file.num_bytes for file in files)
        if files and not self.table.commits_in_task:
            self._commit(opened, batch, files)
        if self.table.place != place:
            raise self._away(batch)
        self._is_known = True
        commit_s = time.monotonic() - started - tasks_s
        rows, refused = sum(file.rows for file in files), sum(file.refused for file in written)
        log.info(
            "batch written to table",
            batch_time=batch.time_ms,
            table=self.table.name,
            output=self.output,
            rows=rows,
            files=len(files),
            bytes=self._last_bytes,
            refused_rows=refused,
            tasks_ms=round(tasks_s * 1000),
            commit_ms=round(commit_s * 1000),
        )
        return OutputMetadata(
            **self._table_metadata,
            rows=rows,
            refused_rows=refused,
            files=len(files),
            bytes=self._last_bytes,
            tasks_seconds=round(tasks_s, 3),
            commit_seconds=round(commit_s, 3),
        )

    @property
    def _table_metadata(self) -> dict[str, str]:
        dataset = self.table.dataset
        return {"table": self.table.name, **({"dataset": dataset} if dataset else {})}

    def _open(self, batch: BatchId, schema: pa.Schema | None) -> OpenTable:
        """Open the table, and create it only if this program has not written into it: its store may be away."""
        if not self._is_known:
            return self.table.open(schema)
        try:
            return self.table.open(None)
        except MissingTableError as error:
            raise self._away(batch) from error

    def _away(self, batch: BatchId) -> TableWriteError:
        return TableWriteError(
            f"{batch.description} not written: {self.table.name}, into which this program has written before, is "
            "missing. Bring its store back, for example mount its disk: with a checkpoint directory the batch then "
            "runs again, after a restart or with spark.penstock.onFailedBatch=retry. A restart creates the table anew "
            "if it is still missing"
        )

    def _is_written(self, batch: BatchId) -> bool:
        """Whether the table certainly has the batch; false while it cannot be read."""
        try:
            return self._number(self.table.open(None), batch) is None
        except Exception as error:
            log.info("table not read after a failure", table=self.table.name, reason=text_of(error))
            return False

    def _number(self, opened: OpenTable, batch: BatchId) -> int | None:
        """The number under which to write; ``None`` if the table has the batch."""
        standing = opened.standing(batch)
        number = writer_number(standing, batch, self.table.name)
        if look_up(standing, batch) == "search" and opened.has(batch):
            log.info("batch is in the table already", batch_time=batch.time_ms, table=self.table.name)
            return None
        return number

    def _with_columns(self, opened: OpenTable, schema: pa.Schema | None) -> tuple[OpenTable, pa.Schema]:
        """The table with the batch's columns, and the columns to write."""
        columns = plan(opened.schema(), schema or opened.schema(), self.table.name, adds_columns=self.adds_columns)
        if columns.added:
            opened.add_columns(columns.added)
            log.warning("columns added to table", table=self.table.name, columns=[one.name for one in columns.added])
            opened = self.table.open(schema)
            # The table decides on the types.
            columns = plan(opened.schema(), schema or opened.schema(), self.table.name, adds_columns=False)
        return opened, columns.schema

    def _commit(self, opened: OpenTable, batch: BatchId, files: list[DataFile]) -> None:
        """Commit; look again after each commit of another writer, which may have written this batch."""
        conflict = ""
        for _attempt in range(_ATTEMPTS):
            number = self._number(opened, batch)
            if number is None:
                return
            try:
                opened.commit(Commit(batch, number, files))
                return
            except CommitConflictError as error:
                conflict = text_of(error)
                log.info("commit repeated", batch_time=batch.time_ms, table=self.table.name, reason=conflict)
            opened = self.table.open(None)
        raise CommitConflictError(
            f"{batch.description} not written to {self.table.name}: {_ATTEMPTS} times another writer committed first, "
            f"the last time with: {conflict}. Have fewer programs write into the table, or have them commit less often "
            "with every="
        )

    def _partitions(self) -> int | None:
        """The most partitions that the batch may have; ``None`` for those that it has."""
        return int(self._last_bytes * _HEADROOM // self.target_bytes) + 1 if self._last_bytes else None


def _batch_id(context: Any, output: str, batch_time_ms: int) -> BatchId:
    run = context.getLocalProperty("spark.penstock.run")
    return BatchId(context.appName, output, run or context.applicationId, batch_time_ms)
