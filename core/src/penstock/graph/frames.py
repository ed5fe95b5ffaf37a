"""The nodes of DataFrame streams: each batch as a DataFrame, and the outputs and rows made of it.

What a batch is read from is collected on the generator's loop. The DataFrame is made when the first output needs it, on
the job's thread, because Spark analyzes it and the schema may have to be read from a block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from attrs import frozen
from pyspark import RDD

from penstock.blocks.arrow_form import is_pickled
from penstock.errors import SchemaError
from penstock.graph.batch_input import BatchInput, RowInput
from penstock.graph.node import Node
from penstock.graph.outputs import ForEachDStream
from penstock.plugins.specs import ArrowInput
from penstock.runtime.log import get_logger
from penstock.spark import dataframes
from penstock.spark.schemas import from_arrow, to_arrow
from penstock.worker.arrow_rows import as_rows
from penstock.worker.arrow_types import spark_schema
from penstock.worker.read_arrow import ReadArrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = get_logger("frames")


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


class BatchFrame:
    """The DataFrame of one batch, made at the first ``get`` and shared by the outputs.

    Args:
        make: makes it; ``None`` when the batch has no DataFrame.
    """

    def __init__(self, make: Callable[[], DataFrame | None]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[DataFrame | None] | None = None

    def get(self) -> DataFrame | None:
        """The DataFrame; ``None`` while the stream's schema is unknown. An error is not remembered."""
        with self._lock:
            if self._made is None:
                self._made = (self._make(),)
            return self._made[0]


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

    Without a declared schema, that of the first record batch is the stream's; the program that runs again learns anew.

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
        """Forget the schema that this run has found."""
        self._lock = threading.Lock()
        self._known: FrameSchema | None = None

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        """Collect what the batch is read from."""
        inputs = self._parent.batch_inputs(time_ms)
        return None if inputs is None else BatchFrame(partial(self._frame_of, inputs))

    def _frame_of(self, inputs: Sequence[BatchInput]) -> DataFrame | None:
        schema = self._schema(inputs)
        if schema is None:
            return None
        spark = dataframes.session(self._sc)
        present = [each for each in inputs if _references(each) is not None]
        frames = [self._read(spark, schema, kind, list(group)) for kind, group in groupby(present, _kind)]
        return _united(frames) if frames else dataframes.empty(spark, schema.struct)

    def _schema(self, inputs: Sequence[BatchInput]) -> FrameSchema | None:
        """The stream's schema; ``None`` while no record has come.

        Raises:
            SchemaError: it must be declared, because the records are Python objects, or Spark has no such type.
        """
        if self._declared is not None:
            return self._declared
        if not all(isinstance(each, ArrowInput) for each in inputs):
            raise SchemaError(self._undeclared("records that are Python objects"))
        with self._lock:
            if self._known is None:
                found = next((schema for each in inputs if (schema := _source(each).schema()) is not None), None)
                if found is not None and is_pickled(found):
                    raise SchemaError(self._undeclared("records of several types, or of one that Arrow lacks"))
                if found is not None:
                    self._known = FrameSchema(from_arrow(spark_schema(found)), is_declared=False)
            return self._known

    def _undeclared(self, what: str) -> str:
        return f"{self.call_site.short}: the stream has {what}: declare the schema, as in toDF('name type, ...')"

    def _read(self, spark: SparkSession, schema: FrameSchema, kind: Any, inputs: list[Any]) -> DataFrame:
        """The DataFrame of consecutive inputs of one kind."""
        if kind is None:
            as_tuples = partial(as_rows, to_arrow(schema.struct), schema.are_values)
            rows = [each.mapPartitionsWithIndex(as_tuples) for each in inputs]
            return dataframes.of_rows(spark, self._one(rows), schema.struct)
        reader, chain, is_grouped = kind
        read = ReadArrow(
            reader, to_arrow(schema.struct), schema.is_declared, schema.are_values, is_grouped=is_grouped, chain=chain
        )
        references = self._one([_references(each) for each in inputs])
        return dataframes.of_references(spark, references, read, schema.struct, with_index=chain is not None)

    def _one(self, rdds: list[RDD[Any]]) -> RDD[Any]:
        return rdds[0] if len(rdds) == 1 else self._sc.union(rdds)


def _source(each: Any) -> ArrowInput:
    found: ArrowInput = each.source if isinstance(each, RowInput) else each
    return found


def _references(each: BatchInput) -> Any:
    """The RDD of a batch's rows or references; ``None`` when it has no records."""
    return each if isinstance(each, RDD) else _source(each).references


def _kind(each: BatchInput) -> tuple[Any, ...] | None:
    """Inputs of the same kind are read together; ``None`` for rows."""
    if isinstance(each, RDD):
        return None
    chain = each.chain if isinstance(each, RowInput) else None
    return _source(each).reader, chain, dataframes.is_grouped(_references(each))


def _united(frames: list[DataFrame]) -> DataFrame:
    united = frames[0]
    for frame in frames[1:]:
        united = united.union(frame)
    return united


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
        return BatchFrame(partial(self._applied, present)) if len(present) == len(frames) else None

    def _applied(self, frames: Sequence[BatchFrame]) -> DataFrame | None:
        """Call the function.

        Raises:
            TypeError: it returned something else than a DataFrame.
        """
        from pyspark.sql import DataFrame

        given = [frame.get() for frame in frames]
        if None in given:
            return None
        result = self._function(*given)
        if not isinstance(result, DataFrame):
            raise TypeError(f"{self.call_site.short}: the function returned {type(result).__name__}, not a DataFrame")
        return result


class RowsOfFrames(Node):
    """The rows of DataFrames as RDDs.

    Args:
        parent: gives the DataFrames.
    """

    runs_foreign_code = True

    def __init__(self, parent: FrameDStream) -> None:
        super().__init__(parent.graph, (parent,))
        self._parent = parent

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The rows; an empty RDD while the schema is unknown."""
        frame = self._parent.frame(time_ms)
        if frame is None:
            return None
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
