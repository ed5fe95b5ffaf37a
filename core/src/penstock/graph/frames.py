"""The nodes of DataFrame streams: each batch as a DataFrame, and the outputs and rows made of it.

What a batch is read from is collected on the generator's loop. The DataFrame is made when the first output needs it, on
the job's thread, because Spark analyzes it and the schema may have to be read from a block.
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

from penstock.blocks.arrow_form import is_pickled
from penstock.errors import ResultTypeError, SchemaError
from penstock.graph.batch_input import BatchInput, BlocksInput
from penstock.graph.node import Node
from penstock.graph.outputs import ForEachDStream
from penstock.plugins.specs import ArrowInput
from penstock.runtime.log import get_logger
from penstock.spark import dataframes
from penstock.spark.rdds import is_known_empty
from penstock.spark.schemas import from_arrow, to_arrow, undeclared
from penstock.worker.arrow_types import spark_schema
from penstock.worker.read_arrow import ReadColumns, ReadNothing, ReadRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from penstock.spark.dataframes import BatchFrames

log = get_logger("frames")

T = TypeVar("T")


@frozen
class FrameSchema:
    """The schema of a stream's DataFrames.

    Attributes:
        struct: columns and types.
        is_declared: whether the program declared it; else it is that of the first record batch.
        are_values: each record is the value of the only column.
    """

    struct: StructType
    is_declared: bool
    are_values: bool = False


class Once(Generic[T]):
    """What is made at the first ``get``, by any thread. An error is not remembered.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[T] | None = None

    def get(self) -> T:
        """What was made."""
        with self._lock:
            if self._made is None:
                self._made = (self._make(),)
            return self._made[0]


#: The DataFrame of one batch, shared by the outputs; ``None`` while the stream's schema is unknown.
BatchFrame: TypeAlias = "Once[DataFrame | None]"


class FrameDStream(Node):
    """A stream of DataFrames instead of RDDs."""

    def __init__(self, parents: Sequence[Node]) -> None:
        super().__init__(parents[0].graph, parents)
        self._frames: dict[int, BatchFrame] = {}

    def program_state(self) -> dict[str, Any]:
        """The attributes that the program set."""
        return {**super().program_state(), "_frames": {}}

    def compute(self, time_ms: int) -> None:
        """Return ``None``: the batches are not RDDs."""

    def frame(self, time_ms: int) -> BatchFrame | None:
        """The DataFrame of a time; ``None`` when the stream has none."""
        if time_ms not in self._frames:
            frame = self.make_frame(time_ms) if self.is_time_valid(time_ms) else None
            if frame is None:
                return None
            self._frames[time_ms] = frame
        return self._frames[time_ms]

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        """Prepare the DataFrame of a valid time."""
        raise TypeError(f"{type(self).__name__} must override make_frame")

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget old batches."""
        self._frames = {time: frame for time, frame in self._frames.items() if time > time_ms - self.remember_ms}
        super().clear_metadata(time_ms, unpersist=unpersist)


class SourceFrames(FrameDStream):
    """The batches of a stream of records as DataFrames.

    Without a declared schema, it is the one that the parent knows, else that of the first record batch. A recovered run
    finds it anew.

    Args:
        parent: gives the records.
        schema: declared by the program; ``None`` to take that of the columns.
    """

    def __init__(self, parent: Node, schema: FrameSchema | None) -> None:
        super().__init__((parent,))
        self._parent, self._declared = parent, schema
        self.restored()

    def program_state(self) -> dict[str, Any]:
        """The attributes that the program set."""
        return {**super().program_state(), "_lock": None, "_known": None}

    def restored(self) -> None:
        """Forget the schema that was found. Check pandas, which a recovered run may lack.

        Raises:
            ConfigurationError: pandas is missing, or a version that PySpark does not support.
        """
        dataframes.require_pandas()
        self._lock = threading.Lock()
        self._known: FrameSchema | None = None

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        """Collect what the batch is read from."""
        inputs = self._parent.batch_inputs(time_ms)
        return None if inputs is None else Once(partial(self._frame_of, inputs))

    def _frame_of(self, inputs: Sequence[BatchInput]) -> DataFrame | None:
        schema = self._schema(inputs)
        if schema is None:
            return None
        frames = self.graph.batch_frames
        present = [each for each in inputs if not _is_empty(each)]
        return frames.united([self._read(schema, each) for each in self._combined(present)], schema.struct)

    def _schema(self, inputs: Sequence[BatchInput]) -> FrameSchema | None:
        """The stream's schema; ``None`` while it is not known and no record has come.

        Raises:
            SchemaError: it must be declared, because the records are Python objects, or Spark has no such type.
        """
        if self._declared is not None:
            return self._declared
        columns = [each for each in inputs if not isinstance(each, RDD)]
        if len(columns) < len(inputs):
            raise SchemaError(self._undeclared("Python objects"))
        with self._lock:
            if self._known is None:
                found = self._parent.known_schema
                if found is None:
                    found = next((schema for each in columns if (schema := each.schema()) is not None), None)
                if found is not None and is_pickled(found):
                    raise SchemaError(self._undeclared("of several types, or of one that Arrow lacks"))
                if found is not None:
                    self._known = FrameSchema(from_arrow(spark_schema(found)), is_declared=False)
            return self._known

    def _undeclared(self, what: str) -> str:
        return undeclared(self._parent.call_site.short, what)

    def _combined(self, inputs: Sequence[BatchInput]) -> Iterator[BatchInput]:
        """Fewer inputs of the same records: consecutive ones that are read alike are united."""
        for _reader, group in groupby(inputs, _reader_of):
            alike: list[Any] = list(group)
            if len(alike) == 1:
                yield alike[0]
            elif isinstance(alike[0], BlocksInput):
                yield BlocksInput.united(alike, self.graph.runtime.partition_min_bytes)
            elif isinstance(alike[0], ArrowInput):
                yield evolve(alike[0], references=self._sc.union([each.references for each in alike]))
            else:
                yield self._sc.union(alike)

    def _read(self, schema: FrameSchema, each: BatchInput) -> DataFrame:
        columns = to_arrow(schema.struct)
        if isinstance(each, RDD):
            rows = dataframes.unpiped(each)
            return self.graph.batch_frames.read(
                rows, ReadRows(rows.function, columns, schema.are_values, rows.is_grouped), schema.struct
            )
        references, reader = (
            each.elements(self.graph.partition_slots)
            if isinstance(each, BlocksInput)
            else (each.references, each.reader)
        )
        assert references is not None  # else it was left out as empty
        elements = dataframes.pickled(references)
        read = ReadColumns(reader, columns, schema.is_declared, schema.are_values, elements.is_grouped)
        return self.graph.batch_frames.read(elements, read, schema.struct)


def prepare(frames: BatchFrames, tasks: int) -> None:
    """Have Spark load what the first batch needs.

    Args:
        frames: makes the DataFrames of the batches.
        tasks: the number of tasks that run at once.
    """
    schema = from_arrow(pa.schema([("value", pa.string())]))
    frames.prepare(tasks, ReadNothing(to_arrow(schema)), schema)


def _is_empty(each: BatchInput) -> bool:
    """Whether it is known, without a call of the JVM, that there are no records."""
    if isinstance(each, ArrowInput):
        return each.references is None
    return isinstance(each, RDD) and is_known_empty(each)


def _reader_of(each: BatchInput) -> object:
    """Equal for inputs whose elements the same function reads."""
    if isinstance(each, BlocksInput):
        return each.read
    if isinstance(each, ArrowInput):
        return each.reader
    # The function of an RDD may use the index of the partition, which is another one in a union.
    return object() if dataframes.has_function(each) else RDD


class DerivedFrames(FrameDStream):
    """What a function makes of the DataFrames of other streams.

    Args:
        parents: at least one.
        function: called with the DataFrame of each parent.
    """

    def __init__(self, parents: Sequence[FrameDStream], function: Callable[..., Any]) -> None:
        super().__init__(parents)
        self._parents, self._function = tuple(parents), function

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        """Prepare the call."""
        frames = [parent.frame(time_ms) for parent in self._parents]
        present = [frame for frame in frames if frame is not None]
        return Once(partial(self._applied, present)) if len(present) == len(frames) else None

    def _applied(self, frames: Sequence[BatchFrame]) -> DataFrame | None:
        """Call the function.

        Raises:
            ResultTypeError: it returned something else than a DataFrame.
        """
        from pyspark.sql import DataFrame

        given = [frame.get() for frame in frames]
        if None in given:
            return None
        result = self._function(*given)
        if not isinstance(result, DataFrame):
            raise ResultTypeError(
                f"{self.call_site.short}: the function returned {type(result).__name__}, not a DataFrame"
            )
        return result


class RowsOfFrames(Node):
    """The rows of DataFrames as RDDs.

    Args:
        parent: gives the DataFrames.
    """

    def __init__(self, parent: FrameDStream) -> None:
        super().__init__(parent.graph, (parent,))
        self._parent = parent
        # The batches whose rows could not be planned.
        self._unplanned: dict[int, Once[RDD[Any]]] = {}

    def program_state(self) -> dict[str, Any]:
        """The attributes that the program set."""
        return {**super().program_state(), "_unplanned": {}}

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The rows; an empty RDD while the schema is unknown."""
        frame = self._parent.frame(time_ms)
        if frame is None:
            return None
        rows = self._unplanned.setdefault(time_ms, Once(partial(self._rows, frame)))
        found = rows.get()
        del self._unplanned[time_ms]
        return found

    @property
    def runs_foreign_code(self) -> bool:
        """Planning may run Spark jobs."""
        return True

    def before_retry(self) -> None:
        """Plan, which may run Spark jobs."""
        with self.graph.lock:
            unplanned = list(self._unplanned.values())
        for rows in unplanned:
            rows.get()

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget old batches."""
        self._unplanned = {time: rows for time, rows in self._unplanned.items() if time > time_ms - self.remember_ms}
        super().clear_metadata(time_ms, unpersist=unpersist)

    def _rows(self, frame: BatchFrame) -> RDD[Any]:
        made = frame.get()
        return self._sc.emptyRDD() if made is None else made.rdd


class ForEachFrame(ForEachDStream):
    """An output operation: every DataFrame of the parent goes to a function of the program.

    Args:
        parent: gives the DataFrames.
        function: called with the batch's datetime, or its time, and the DataFrame.
        by_id: call it as ``function(frame, batch_time_ms)``.
    """

    def __init__(self, parent: FrameDStream, function: Callable[..., object], *, by_id: bool = False) -> None:
        super().__init__(parent, function)
        self._by_id = by_id

    def _batch(self, time_ms: int) -> BatchFrame | None:
        assert isinstance(self._parent, FrameDStream)
        return self._parent.frame(time_ms)

    def _call(self, time_ms: int, batch: BatchFrame) -> None:
        frame = batch.get()
        function: Callable[..., object] = self.function
        if frame is None:
            log.debug("empty batch skipped, schema unknown", batch_time=time_ms, operation=self.call_site.short)
        elif self._by_id:
            function(frame, time_ms)
        else:
            function(self.datetime_of(time_ms), frame)


@frozen
class PrintFrame:
    """The output function of ``pprint``.

    Attributes:
        num_rows: how many rows to print.
    """

    num_rows: int

    def __call__(self, time: Any, frame: DataFrame) -> None:
        """Print the first rows as a table."""
        lines = ["-" * 43, f"Time: {time}", "-" * 43, dataframes.as_table(frame, self.num_rows)]
        # One call, so that the lines of outputs that run at the same time stay together.
        print("\n".join(lines), flush=True)
