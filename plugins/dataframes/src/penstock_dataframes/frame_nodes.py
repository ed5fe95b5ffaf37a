"""The nodes of DataFrame streams: DataFrames of a batch, their outputs, and their rows.

A node collects the inputs of a batch on the generator's loop. It creates the DataFrame on the job's thread, when the
first output needs it, because Spark analyzes it and the schema may have to be read from a block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import pyarrow as pa
from attrs import evolve, frozen
from pyspark import RDD

from penstock import ArrowInput, ConfigurationError, SchemaError
from penstock.spi import (
    BatchInput,
    BlocksInput,
    ForEachDStream,
    Node,
    ResultTypeError,
    get_logger,
    is_pickled,
    known_partitions,
)
from penstock_dataframes import jvm_frames
from penstock_dataframes.jvm_frames import BatchFrames
from penstock_dataframes.read_arrow import ReadColumns, ReadNothing, ReadRows
from penstock_dataframes.schemas import from_arrow, to_arrow, undeclared
from penstock_dataframes.spark_types import spark_schema
from penstock_dataframes.united_inputs import unite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from penstock import ArrowReader

log = get_logger("frames")

# Parts of Spark's error conditions for names that exist outside of a plan.
_MAY_EXIST_LATER = ("TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_ROUTINE")

T = TypeVar("T")


@frozen
class FrameSchema:
    """The schema of a stream's DataFrames.

    Attributes:
        struct: columns and types.
        is_declared: whether the program declared it; otherwise it is the schema of the first record batch.
        are_values: each record is the value of the only column.
    """

    struct: StructType
    is_declared: bool
    are_values: bool = False


class Lazy(Generic[T]):
    """A value that the first ``get`` creates, on any thread. After an error, the next ``get`` tries again.

    Args:
        create: returns the value.
    """

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._values: list[T] = []

    def get(self) -> T:
        """Return the value, creating it on first use."""
        with self._lock:
            if not self._values:
                self._values.append(self._create())
            return self._values[0]


#: The DataFrame of one batch, shared by the outputs; ``None`` while the stream's schema is unknown.
BatchFrame: TypeAlias = "Lazy[DataFrame | None]"


class DataFrameDStream(Node):
    """A stream of DataFrames instead of RDDs."""

    def __init__(self, parents: Sequence[Node]) -> None:
        super().__init__(parents[0].graph, parents)
        self._frames: dict[int, BatchFrame] = {}
        #: An empty DataFrame with the stream's columns; ``None`` until the start, or while they are unknown.
        self.columns: DataFrame | None = None

    def program_state(self) -> dict[str, Any]:
        return {**super().program_state(), "_frames": {}, "columns": None}

    def validate(self) -> None:
        """Analyze the stream's plan, so that a wrong column fails the start instead of each batch.

        Raises:
            ConfigurationError: Spark refuses the plan; names the line of the program.
        """
        from pyspark.errors import AnalysisException

        super().validate()
        try:
            self.columns = self.analyzed()
        except AnalysisException as error:
            # The program may define tables, views and functions after the start.
            if not any(missing in (error.getCondition() or "") for missing in _MAY_EXIST_LATER):
                reason, *_plan = str(error).strip().splitlines() or [type(error).__name__]
                raise ConfigurationError(f"{self.call_site.short}: {reason}") from error

    def analyzed(self) -> DataFrame | None:
        """An empty DataFrame with the stream's columns; ``None`` while they are unknown. Runs no job."""
        return None

    def compute(self, time_ms: int) -> None:
        # The batches are not RDDs.
        pass

    def prepare(self) -> None:
        schema = from_arrow(pa.schema([("value", pa.string())]))
        BatchFrames.of(self.graph).prepare(self.graph.free_slots(), ReadNothing(to_arrow(schema)), schema)

    def frame(self, time_ms: int) -> BatchFrame | None:
        """The DataFrame of a batch; ``None`` if the stream has none."""
        if time_ms not in self._frames:
            frame = self.make_frame(time_ms) if self.is_time_valid(time_ms) else None
            if frame is None:
                return None
            self._frames[time_ms] = frame
        return self._frames[time_ms]

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        """Prepare the DataFrame of a valid batch time."""
        raise TypeError(f"{type(self).__name__} must override make_frame")

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        self._frames = {time: frame for time, frame in self._frames.items() if time > time_ms - self.remember_ms}
        super().clear_metadata(time_ms, unpersist=unpersist)


class ToDataFrameDStream(DataFrameDStream):
    """The batches of a stream of records as DataFrames.

    Without a declared schema, the schema is the one that the parent knows, or else that of the first record batch. A
    recovered run infers it again.

    Args:
        parent: the stream of records.
        schema: the declared schema; ``None`` to infer it from the columns.
    """

    def __init__(self, parent: Node, schema: FrameSchema | None) -> None:
        super().__init__((parent,))
        self._parent = parent
        self._declared = schema
        self.restored()

    def program_state(self) -> dict[str, Any]:
        # A recovered run infers the schema again.
        return {**super().program_state(), "_lock": None, "_inferred": None}

    def restored(self) -> None:
        """Forget the inferred schema. Check pandas, which a recovered run may lack.

        Raises:
            ConfigurationError: pandas is missing, or a version that PySpark does not support.
        """
        jvm_frames.require_pandas()
        self._lock = threading.Lock()
        self._inferred: FrameSchema | None = None

    def analyzed(self) -> DataFrame | None:
        schema = self._declared or self._stored_schema(self._parent.known_schema)
        return None if schema is None else BatchFrames.of(self.graph).united((), schema.struct)

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        inputs = self._parent.batch_inputs(time_ms)
        return None if inputs is None else Lazy(partial(self._frame_of, inputs))

    def _frame_of(self, inputs: Sequence[BatchInput]) -> DataFrame | None:
        schema = self._schema(inputs)
        if schema is None:
            return None
        frames = BatchFrames.of(self.graph)
        present = [batch_input for batch_input in inputs if not _is_empty(batch_input)]
        read = [self._read(frames, schema, batch_input) for batch_input in self._combined(present)]
        return frames.united(read, schema.struct)

    def _schema(self, inputs: Sequence[BatchInput]) -> FrameSchema | None:
        """The stream's schema; ``None`` while it is unknown and no record has arrived.

        Raises:
            SchemaError: the schema must be declared, because the records are Python objects or Spark lacks a type.
        """
        if self._declared is not None:
            return self._declared
        columns = [batch_input for batch_input in inputs if not isinstance(batch_input, RDD)]
        if len(columns) < len(inputs):
            raise SchemaError(self._undeclared("Python objects"))
        with self._lock:
            if self._inferred is None:
                stored = self._parent.known_schema
                if stored is None:
                    schemas = (batch_input.schema() for batch_input in columns)
                    stored = next((schema for schema in schemas if schema is not None), None)
                self._inferred = self._stored_schema(stored)
            return self._inferred

    def _stored_schema(self, stored: pa.Schema | None) -> FrameSchema | None:
        if stored is None:
            return None
        if is_pickled(stored):
            raise SchemaError(self._undeclared("of several types, or of one that Arrow lacks"))
        return FrameSchema(from_arrow(spark_schema(stored)), is_declared=False)

    def _undeclared(self, what: str) -> str:
        return undeclared(self._parent.call_site.short, what)

    def _combined(self, inputs: Sequence[BatchInput]) -> Iterator[BatchInput]:
        """Unite consecutive inputs that the same function reads, so that there are fewer inputs."""
        for _reader, group in groupby(inputs, _reader_of):
            alike: list[Any] = list(group)
            if len(alike) == 1:
                yield alike[0]
            elif isinstance(alike[0], BlocksInput):
                yield unite(alike, self.graph.runtime.partition_min_bytes)
            elif isinstance(alike[0], ArrowInput):
                yield evolve(alike[0], references=self._sc.union([arrow.references for arrow in alike]))
            else:
                yield self._sc.union(alike)

    def _read(self, frames: BatchFrames, schema: FrameSchema, batch_input: BatchInput) -> DataFrame:
        columns = to_arrow(schema.struct)
        if isinstance(batch_input, RDD):
            rows = jvm_frames.unpiped(batch_input)
            read_rows = ReadRows(rows.function, columns, schema.are_values, rows.is_grouped)
            return frames.read(rows, read_rows, schema.struct, known_partitions(batch_input))
        num_partitions: int | None = None
        reader: ArrowReader
        if isinstance(batch_input, BlocksInput):
            references, reader = batch_input.elements(self.graph.placeholder_rdds)
            num_partitions = len(batch_input.references)
        else:
            assert batch_input.references is not None  # empty inputs were left out
            references, reader = batch_input.references, batch_input.reader
        elements = jvm_frames.pickled(references)
        read = ReadColumns(reader, columns, schema.is_declared, schema.are_values, elements.is_grouped)
        return frames.read(elements, read, schema.struct, num_partitions)


def _is_empty(batch_input: BatchInput) -> bool:
    """Whether the input is known to be empty, without a call to the JVM."""
    if isinstance(batch_input, ArrowInput):
        return batch_input.references is None
    return isinstance(batch_input, RDD) and known_partitions(batch_input) == 0


def _reader_of(batch_input: BatchInput) -> object:
    """Key that groups inputs whose elements the same function reads."""
    if isinstance(batch_input, BlocksInput):
        return batch_input.read
    if isinstance(batch_input, ArrowInput):
        return batch_input.reader
    # The function of an RDD may use the partition's index, which a union would change.
    return object() if jvm_frames.has_function(batch_input) else RDD


class TransformedDataFrameDStream(DataFrameDStream):
    """The DataFrames that a function computes from those of other streams.

    Args:
        parents: at least one stream.
        function: called with the DataFrame of each parent.
        is_plan: whether it only extends the plan of its arguments, so that calling it at the start has no effect.
    """

    def __init__(
        self, parents: Sequence[DataFrameDStream], function: Callable[..., Any], *, is_plan: bool = True
    ) -> None:
        super().__init__(parents)
        self._parents = tuple(parents)
        self._function = function
        self._is_plan = is_plan

    def analyzed(self) -> DataFrame | None:
        columns = [parent.columns for parent in self._parents]
        is_known = self._is_plan and None not in columns
        return self._function(*columns) if is_known else None

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        frames = [parent.frame(time_ms) for parent in self._parents]
        present = [frame for frame in frames if frame is not None]
        return Lazy(partial(self._applied, present)) if len(present) == len(frames) else None

    def _applied(self, frames: Sequence[BatchFrame]) -> DataFrame | None:
        """Call the function.

        Raises:
            ResultTypeError: the function returned something other than a DataFrame.
        """
        from pyspark.sql import DataFrame

        inputs = [frame.get() for frame in frames]
        if None in inputs:
            return None
        result = self._function(*inputs)
        if not isinstance(result, DataFrame):
            raise ResultTypeError(
                f"{self.call_site.short}: the function returned {type(result).__name__}, not a DataFrame"
            )
        return result


class DataFrameRowsDStream(Node):
    """The rows of DataFrames as RDDs.

    Args:
        parent: the stream of DataFrames.
    """

    def __init__(self, parent: DataFrameDStream) -> None:
        super().__init__(parent.graph, (parent,))
        self._parent = parent
        # Batches whose rows could not be planned yet, by batch time.
        self._unplanned: dict[int, Lazy[RDD[Any]]] = {}

    def program_state(self) -> dict[str, Any]:
        return {**super().program_state(), "_unplanned": {}}

    def compute(self, time_ms: int) -> RDD[Any] | None:
        # An empty RDD while the schema is unknown.
        frame = self._parent.frame(time_ms)
        if frame is None:
            return None
        rows = self._unplanned.setdefault(time_ms, Lazy(partial(self._rows, frame)))
        rdd = rows.get()
        del self._unplanned[time_ms]
        return rdd

    @property
    def runs_foreign_code(self) -> bool:
        # Planning may run Spark jobs.
        return True

    def before_retry(self) -> None:
        with self.graph.lock:
            unplanned = list(self._unplanned.values())
        for rows in unplanned:
            rows.get()

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        self._unplanned = {time: rows for time, rows in self._unplanned.items() if time > time_ms - self.remember_ms}
        super().clear_metadata(time_ms, unpersist=unpersist)

    def _rows(self, frame: BatchFrame) -> RDD[Any]:
        dataframe = frame.get()
        return self._sc.emptyRDD() if dataframe is None else dataframe.rdd


class ForEachDataFrame(ForEachDStream):
    """An output operation that passes every DataFrame of the parent to a function of the program.

    Args:
        parent: the stream of DataFrames.
        function: called with the batch's datetime, or its time, and the DataFrame.
        by_id: call it as ``function(frame, batch_time_ms)``.
    """

    def __init__(self, parent: DataFrameDStream, function: Callable[..., object], *, by_id: bool = False) -> None:
        super().__init__(parent, function)
        self._by_id = by_id

    def batch(self, time_ms: int) -> BatchFrame | None:
        assert isinstance(self._parent, DataFrameDStream)
        return self._parent.frame(time_ms)

    def call(self, time_ms: int, batch: BatchFrame) -> object:
        # Without a call while the stream's schema is unknown.
        frame = batch.get()
        function: Callable[..., object] = self.function
        if frame is None:
            log.debug("empty batch skipped, schema unknown", batch_time=time_ms, operation=self.call_site.short)
            return None
        return function(frame, time_ms) if self._by_id else function(self.datetime_of(time_ms), frame)


@frozen
class PrintFrame:
    """The output function of ``pprint``.

    Attributes:
        num_rows: maximum number of rows to print.
    """

    num_rows: int

    def __call__(self, time: Any, frame: DataFrame) -> None:
        """Print the first rows as a table."""
        lines = ["-" * 43, f"Time: {time}", "-" * 43, jvm_frames.as_table(frame, self.num_rows)]
        # One call, so that the lines of concurrent outputs are not mixed.
        print("\n".join(lines), flush=True)
