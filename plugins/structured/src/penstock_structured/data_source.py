"""``PenstockDataSource``: the implementation of ``spark.readStream.format("penstock")``.

Spark creates these objects in several processes: to check the options, to plan, and to read. Only the process that
Spark asks for offsets runs the receiver, starting with the first such call. Constructing an object starts nothing.
"""

from __future__ import annotations

import inspect
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from attrs import evolve
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock import ConfigurationError, PenstockError, SchemaError
from penstock.spi import BlockReference, Packable, Token, is_pickled, pack, printable, read_block, shortened
from penstock_dataframes.conform import conform
from penstock_structured import source_process
from penstock_structured.batches import end_of_batch
from penstock_structured.options import Source
from penstock_structured.source_run import SourceRun

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before PySpark 4.2: no limits of a batch, no Trigger.AvailableNow
    limits = None  # type: ignore[assignment]

_AvailableNow: Any = getattr(limits, "SupportsTriggerAvailableNow", object)
# Spark's read limits, by class and attribute → arguments of end_of_batch.
_LIMITS = {
    "ReadMaxRows": "max_rows",
    "ReadMaxBytes": "max_bytes",
    "ReadMaxFiles": "max_files",
    "ReadMinRows": "min_rows",
}
# Progress events contain the last error up to this length, characters.
_LONGEST_ERROR = 500


class PenstockDataSource(DataSource):
    """A Penstock receiver as a streaming source; see ``SourceOptions`` for the options.

    Raises:
        UnknownNameError: the receiver or an option does not exist; the message suggests the nearest name.
        ConfigurationError: an option is missing, its value is invalid, or it needs a newer PySpark.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._source = Source.of(options)
        limited = self._source.options.maxRowsPerTrigger or self._source.options.maxBytesPerTrigger
        if limits is None and limited:
            raise ConfigurationError(
                "the options maxRowsPerTrigger and maxBytesPerTrigger of the source 'penstock' need PySpark 4.2 or "
                f"newer, and this is {pyspark.__version__}: leave them out, or limit the receiver by initialRate"
            )

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        # The default, if the program declares no schema: each record is a text.
        return "value STRING"

    def streamReader(self, schema: StructType) -> PenstockStreamReader:
        return PenstockStreamReader(self._source, schema)


class BlocksPartition(InputPartition):
    """The blocks of a batch that one task reads.

    Args:
        references: the references of its blocks.
        token: the token of the server that serves them.
    """

    def __init__(self, references: list[BlockReference], token: Token) -> None:
        super().__init__(None)
        self.references = references
        self.token = token

    def __repr__(self) -> str:
        return f"BlocksPartition({[reference.block_id for reference in self.references]})"


class PenstockStreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]  # any or none
    """Reads the blocks that the receiver stores. The offset ``{"block": n}`` means that the blocks below n are read.

    Args:
        source: the options.
        schema: the schema of the rows; blocks are converted to it, matching columns by name.
    """

    def __init__(self, source: Source, schema: StructType) -> None:
        self._source = source
        self._schema = schema
        self._run: SourceRun | None = None
        # The end and the rows of the last planned batch.
        self._planned: tuple[int, int] | None = None
        # With Trigger.AvailableNow: whether the end is still to be determined, the end, and why data may be missing.
        self._finds_end = False
        self._end: int | None = None
        self._incomplete = ""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the run: tasks only read."""
        return {**self.__dict__, "_run": None}

    # -- in the process of the source --

    def initialOffset(self) -> dict[str, int]:
        # A new query first reads blocks left by an earlier query.
        return {"block": self._opened().blocks.first_number}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        """The offset at which the next batch ends.

        Args:
            start: the offset at which it begins; ``None`` before PySpark 4.2.
            limit: one of Spark's read limits.

        Raises:
            PenstockError: all blocks are read, and the receiver was given up or kept failing until the end of
                ``Trigger.AvailableNow``.
        """
        run = self._opened()
        # Without a start, use the end of the previous batch: Spark plans a batch only after the previous one has ended.
        first = start["block"] if start is not None else self._planned[0] if self._planned else run.blocks.first_number
        run.start(first)
        run.end_batches(first)
        if self._finds_end:
            options, self._finds_end = self._source.options, False
            self._incomplete = run.await_quiet(options.quietPeriod, options.availableNowTimeout)
            self._end = run.blocks.end
        blocks = [block for block in run.blocks.since(first) if self._end is None or block.number < self._end]
        end = end_of_batch(blocks, first, **self._limits(limit))
        if end == first and (reason := run.failure if self._end is None else self._incomplete):
            raise PenstockError(reason)
        self._planned = end, sum(block.rows for block in blocks if block.number < end)
        return {"block": end}

    def getDefaultReadLimit(self) -> Any:
        options = self._source.options
        if options.maxRowsPerTrigger is not None:
            return limits.ReadMaxRows(options.maxRowsPerTrigger)
        if options.maxBytesPerTrigger is not None:
            return limits.ReadMaxBytes(options.maxBytesPerTrigger)
        return limits.ReadAllAvailable()

    def _limits(self, limit: Any) -> dict[str, Any]:
        """The arguments of ``end_of_batch``. Spark passes a single limit, so the option for bytes is added to it."""
        name = _LIMITS.get(type(limit).__name__)
        return (
            {} if name is None else {"max_bytes": self._source.options.maxBytesPerTrigger, name: getattr(limit, name)}
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The source's part of progress events, which Spark requests after planning a batch.

        ``block`` is the number after the newest block, ``batchRows`` the rows of the planned batch, ``rows`` and
        ``bytes`` the backlog after it, ``rate`` the receiver's limit (-1 for none), and ``blocks`` the directory.
        ``receiver`` is the receiver's state; with an error, ``error`` is the last one and ``errorTime`` its time, ms
        since 1970.
        """
        run = self._run
        if run is None:
            return None
        end, batch_rows = self._planned or (run.blocks.first_number, 0)
        waiting = run.blocks.since(end)
        last_error = run.last_error
        failed = {"error": printable(shortened(last_error.message, _LONGEST_ERROR)), "errorTime": last_error.time}
        return {
            "block": run.blocks.end,
            "blocks": str(run.blocks.path),
            "batchRows": batch_rows,
            "rows": sum(block.rows for block in waiting),
            "bytes": sum(block.num_bytes for block in waiting),
            "rate": -1 if run.rate_limit is None else round(run.rate_limit, 3),
            "receiver": run.receiver_state,
            **(failed if last_error.time >= 0 else {}),
        }

    def prepareForTriggerAvailableNow(self) -> None:
        # The query ends with the data that the receiver stores until it is quiet.
        self._finds_end = True

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Distribute the blocks of a batch over tasks.

        Raises:
            PenstockError: a block is missing; the message names it.
        """
        run = self._opened()
        blocks = run.blocks.between(start["block"], end["block"])
        run.start(end["block"])
        # After a restart, the first batch may have been planned by an earlier process.
        self._planned = end["block"], sum(block.rows for block in blocks)
        packable = (Packable(block.reference(run.location), block.num_bytes) for block in blocks)
        partitions = pack(packable, max_bytes=self._source.options.partitionBytes)
        return [BlocksPartition(list(partition), run.token) for partition in partitions]

    def commit(self, end: dict[str, int]) -> None:
        self._opened().delete_before(end["block"])

    def stop(self) -> None:
        # Idempotent and thread-safe. Buffered records are stored for the query's next run.
        if (run := self._run) is not None:
            run.stop()
            self._run = None

    def _opened(self) -> SourceRun:
        if self._run is None:
            source_process.prepare(self.stop)
        if reason := source_process.end_reason():
            raise PenstockError(f"the source of the query has ended: {reason}")
        if self._run is None:
            self._run = SourceRun(self._source)
        return self._run

    # -- in tasks --

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition.

        Raises:
            SchemaError: a block does not fit the query's schema.
            PenstockError: a block cannot be read on this host.
        """
        if not isinstance(partition, BlocksPartition):
            raise TypeError(f"partitions come from this reader, not {partition!r}")
        schema = _arrow_schema(self._schema)
        for reference in partition.references:
            for batch in _batches(reference, partition.token):
                if is_pickled(batch.schema):
                    raise SchemaError(
                        f"block {reference.block_id} of the receiver {self._source.options.receiver!r} holds pickled "
                        "records, which have no columns: have the receiver store str, bytes, int, float or bool "
                        "records, or Arrow batches (store_arrow)"
                    )
                yield conform(batch.replace_schema_metadata(None), schema)


def _batches(reference: BlockReference, token: Token) -> Iterator[pa.RecordBatch]:
    if os.path.exists(reference.path):  # noqa: PTH110  # for each block of each task
        return read_block(reference, token)
    if not reference.source:
        raise PenstockError(
            f"block {reference.path} is not on this host, {socket.gethostname()}. If that is another host than the "
            "driver's, put the directory of the option 'blocks' on a disk that all hosts mount, or set the option "
            "'address' to the address at which executors reach the driver's host. If it is the driver's host, the "
            "file was deleted while the query ran"
        )
    # The server verifies the checksum.
    return read_block(evolve(reference, checksum=None), token)


def _arrow_schema(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before PySpark 4.3 instants are in UTC without being asked.
    has_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if has_zone else to_arrow_schema(schema)
