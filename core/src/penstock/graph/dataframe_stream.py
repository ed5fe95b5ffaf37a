"""``DataFrameStream``: the API of a stream whose batches are DataFrames.

The operators are those of Spark's DataFrame, with its arguments. Each is applied to every batch when an output runs, so
what Spark says of a column that does not exist fails the batch, with the line of the program that named it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from attrs import frozen

from penstock.errors import ConfigurationError, ResultTypeError, shown
from penstock.graph.arguments import require_callable, with_time
from penstock.graph.frames import (
    DerivedFrames,
    ForEachFrame,
    FrameDStream,
    FrameSchema,
    PrintFrame,
    RowsOfFrames,
    SourceFrames,
)
from penstock.graph.node import Node, OnDriver
from penstock.spark import dataframes
from penstock.spark.schemas import parse_schema, undeclared

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import DataType

    from penstock.graph.dstream import DStream


class DataFrameStream(OnDriver):
    """A sequence of DataFrames, one for each batch. Programs get it from ``DStream.toDF``.

    Args:
        node: gives the DataFrames.
        to_dstream: wraps a node of rows.
    """

    def __init__(self, node: FrameDStream, to_dstream: Callable[[Node], DStream[Any]]) -> None:
        self._node, self._to_dstream = node, to_dstream

    @classmethod
    def of_records(
        cls, node: Node, schema: DataType | str | None, to_dstream: Callable[[Node], DStream[Any]]
    ) -> DataFrameStream:
        """The batches of a stream of records; see ``DStream.toDF``."""
        if schema is None:
            if not node.has_columns:
                raise ConfigurationError(undeclared(node.call_site.short, "Python objects"))
            return cls(SourceFrames(node, None), to_dstream)
        struct, is_value = parse_schema(schema)
        return cls(SourceFrames(node, FrameSchema(struct, is_declared=True, are_values=is_value)), to_dstream)

    # -- operators --

    def select(self, *cols: Column | str | list[Column | str]) -> DataFrameStream:
        """Select columns or expressions."""
        return self._call("select", *cols)

    def selectExpr(self, *expr: str) -> DataFrameStream:
        """Select SQL expressions."""
        return self._call("selectExpr", *expr)

    def where(self, condition: Column | str) -> DataFrameStream:
        """Select the rows for which a condition is true."""
        return self._call("where", condition)

    def filter(self, condition: Column | str) -> DataFrameStream:
        """Select the rows for which a condition is true; the same as ``where``."""
        return self._call("filter", condition)

    def withColumn(self, colName: str, col: Column) -> DataFrameStream:
        """Add a column, or replace the one of that name."""
        return self._call("withColumn", colName, col)

    def drop(self, *cols: Column | str) -> DataFrameStream:
        """Leave out columns; names that do not exist are ignored, as in Spark."""
        return self._call("drop", *cols)

    def groupBy(self, *cols: Column | str | list[Column | str]) -> GroupedDataFrameStream:
        """Group the rows of each batch; without columns, all of them are one group."""
        return GroupedDataFrameStream(self, cols)

    def join(
        self,
        other: DataFrame | DataFrameStream | Callable[[], DataFrame],
        on: str | list[str] | Column | list[Column] | None = None,
        how: str | None = None,
    ) -> DataFrameStream:
        """Join each batch with a DataFrame.

        Args:
            other: a DataFrame; a function that returns one, called for each batch, which a program with checkpoints
                needs; or another stream, whose batch of the same time is joined.
            on: the join columns or condition, as in Spark.
            how: the join type, as in Spark; ``inner`` by default.

        Raises:
            TypeError: ``other`` is nothing of these.
            ValueError: the slide durations or contexts of the streams differ.
        """
        from pyspark.sql import DataFrame

        if isinstance(other, DataFrameStream):
            return self._derive(_Join(on, how), self._node, other._node)
        if not isinstance(other, DataFrame) and not callable(other):
            hint = ": use its toDF" if hasattr(other, "toDF") else ""
            raise TypeError(
                "join takes a DataFrame, a function that returns one, or another stream of DataFrames, "
                f"not {type(other).__name__}{hint}"
            )
        return self._derive(_JoinStatic(other, on, how), self._node)

    def sql(self, query: str) -> DataFrameStream:
        """Run a query on each batch, in which ``batch`` is the batch: ``SELECT count(*) FROM batch``.

        Views and functions of the program's SparkSession may be used beside it; a view of its own named ``batch`` may
        not. A command, such as INSERT, fails the batch.

        Raises:
            TypeError: the query is not text.
        """
        if not isinstance(query, str):
            raise TypeError(f"sql takes the text of a query, not {shown(query)}")
        return self._derive(_Query(query), self._node)

    def transform(self, func: Callable[[DataFrame], DataFrame]) -> DataFrameStream:
        """Turn each DataFrame into another one, with any of Spark's operators. ``func`` runs on the driver.

        A function that returns no DataFrame fails the batch.

        Raises:
            TypeError: ``func`` is not callable.
        """
        return self._derive(require_callable("func", func), self._node)

    # -- ends --

    @overload
    def foreachDataFrame(self, func: Callable[[DataFrame], object]) -> None: ...

    @overload
    def foreachDataFrame(self, func: Callable[[datetime, DataFrame], object]) -> None: ...

    def foreachDataFrame(self, func: Callable[..., object]) -> None:
        """Call ``func(df)`` or ``func(time, df)`` with each DataFrame: an output operation.

        Raises:
            AssertionError: the function takes neither one nor two arguments.
        """
        ForEachFrame(self._node, with_time(func, 1, "func should take one or two arguments"))

    def foreachBatch(self, func: Callable[[DataFrame, int], object]) -> None:
        """Call ``func(df, batch_id)``, as in Structured Streaming; the id is the batch time in ms: an output operation.

        A batch that runs again after a recovery has the same id, and a later batch has a larger one.

        Raises:
            TypeError: ``func`` is not callable.
        """
        ForEachFrame(self._node, require_callable("func", func), by_id=True)

    def pprint(self, n: int = 10) -> None:
        """Print the first ``n`` rows of each DataFrame as a table: an output operation.

        Raises:
            TypeError: ``n`` is not an integer.
        """
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(f"pprint takes a number of rows, not {shown(n)}")
        ForEachFrame(self._node, PrintFrame(n))

    def rows(self) -> DStream[Row]:
        """The rows of each DataFrame as a DStream.

        The plan is made when the batch is generated. With adaptive query execution, Spark then runs the shuffles of an
        aggregation or a join before the batch's job starts.
        """
        return self._to_dstream(RowsOfFrames(self._node))

    # -- inside --

    def _call(self, method: str, *arguments: Any) -> DataFrameStream:
        for argument in arguments:
            for each in argument if isinstance(argument, list) else [argument]:
                _require_column(method, each)
        return self._derive(_Call(method, arguments), self._node)

    def _derive(self, function: Callable[..., Any], *parents: FrameDStream) -> DataFrameStream:
        return DataFrameStream(DerivedFrames(parents, function), self._to_dstream)


class GroupedDataFrameStream(OnDriver):
    """The groups of each batch; ``agg`` turns them into rows again.

    Args:
        stream: the batches.
        columns: the grouping columns and expressions.
    """

    def __init__(self, stream: DataFrameStream, columns: Sequence[Any]) -> None:
        for each in columns:
            for column in each if isinstance(each, list) else [each]:
                _require_column("groupBy", column)
        self._stream, self._columns = stream, tuple(columns)

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrameStream:
        """Aggregate each group: expressions such as ``count("*")``, or a dictionary such as ``{"price": "max"}``.

        Raises:
            TypeError: an expression is neither.
            ValueError: there is none.
        """
        if not exprs:
            raise ValueError("agg needs at least one expression")
        for each in exprs:
            if not isinstance(each, dict):
                _require_column("agg", each)
        return self._aggregated("agg", exprs)

    def count(self) -> DataFrameStream:
        """Count the rows of each group, in a column ``count``."""
        return self._aggregated("count", ())

    def _aggregated(self, method: str, arguments: Sequence[Any]) -> DataFrameStream:
        return self._stream._derive(_Aggregate(self._columns, method, tuple(arguments)), self._stream._node)


def _require_column(method: str, column: object) -> None:
    from pyspark.sql import Column

    if not isinstance(column, str | Column):
        raise TypeError(
            f"{method} takes names of columns and expressions, not {shown(column)} ({type(column).__name__})"
        )


@frozen
class _Call:
    method: str
    arguments: tuple[Any, ...]

    def __call__(self, frame: DataFrame) -> Any:
        return getattr(frame, self.method)(*self.arguments)


@frozen
class _Aggregate:
    columns: tuple[Any, ...]
    method: str
    arguments: tuple[Any, ...]

    def __call__(self, frame: DataFrame) -> Any:
        return getattr(frame.groupBy(*self.columns), self.method)(*self.arguments)


@frozen
class _Query:
    text: str

    def __call__(self, frame: DataFrame) -> DataFrame:
        return dataframes.query(frame, self.text)


@frozen
class _Join:
    on: Any
    how: str | None

    def __call__(self, left: DataFrame, right: DataFrame) -> DataFrame:
        return left.join(right, self.on, self.how)


@frozen
class _JoinStatic:
    other: Any
    on: Any
    how: str | None

    def __call__(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        other = self.other if isinstance(self.other, DataFrame) else self.other()
        if not isinstance(other, DataFrame):
            raise ResultTypeError(f"the function given to join returned {type(other).__name__}, not a DataFrame")
        return frame.join(other, self.on, self.how)
