"""``NodeDataFrameStream``: the DataFrameStream that adds its operators to the graph as nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from penstock import ConfigurationError, DataFrameStream, DStream, GroupedDataFrameStream
from penstock.spi import ResultTypeError, node_of, shown, with_time
from penstock_dataframes import jvm_frames
from penstock_dataframes.frame_nodes import (
    DataFrameDStream,
    DataFrameRowsDStream,
    ForEachDataFrame,
    FrameSchema,
    PrintFrame,
    ToDataFrameDStream,
    TransformedDataFrameDStream,
)
from penstock_dataframes.schemas import parse_schema, undeclared

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import DataType

    from penstock import StreamingContext


class NodeDataFrameStream(DataFrameStream):
    """A stream of DataFrames that a node of the graph computes.

    Args:
        node: computes the DataFrames.
        ssc: the context that the stream belongs to.
    """

    def __init__(self, node: DataFrameDStream, ssc: StreamingContext) -> None:
        self._node = node
        self._ssc = ssc

    def __repr__(self) -> str:
        columns = self._node.columns
        text = (
            "columns known after the start"
            if columns is None
            else ", ".join(f"{name}: {type_name}" for name, type_name in columns.dtypes)
        )
        return f"<DataFrameStream {self._node.call_site.short}: {text}>"

    @classmethod
    def of_records(cls, stream: DStream[Any], schema: DataType | str | None) -> NodeDataFrameStream:
        """The batches of a stream of records; see ``DStream.toDF``."""
        node = node_of(stream)
        if schema is None:
            if not node.has_columns:
                raise ConfigurationError(undeclared(node.call_site.short, "Python objects"))
            return cls(ToDataFrameDStream(node, None), stream.context())
        struct, is_value = parse_schema(schema)
        return cls(
            ToDataFrameDStream(node, FrameSchema(struct, is_declared=True, are_values=is_value)), stream.context()
        )

    # -- operators --

    def select(self, *cols: Column | str | list[Column | str]) -> DataFrameStream:
        return self._call("select", *cols)

    def selectExpr(self, *expr: str) -> DataFrameStream:
        return self._call("selectExpr", *expr)

    def where(self, condition: Column | str) -> DataFrameStream:
        return self._call("where", condition)

    def filter(self, condition: Column | str) -> DataFrameStream:
        return self._call("filter", condition)

    def withColumn(self, colName: str, col: Column) -> DataFrameStream:
        return self._call("withColumn", colName, col)

    def drop(self, *cols: Column | str) -> DataFrameStream:
        return self._call("drop", *cols)

    def groupBy(self, *cols: Column | str | list[Column | str]) -> GroupedDataFrameStream:
        return NodeGroupedDataFrameStream(self, cols)

    def join(
        self,
        other: DataFrame | DataFrameStream | Callable[[], DataFrame],
        on: str | list[str] | Column | list[Column] | None = None,
        how: str | None = None,
    ) -> DataFrameStream:
        from pyspark.sql import DataFrame

        if isinstance(other, NodeDataFrameStream):
            return self.derive(_Join(on, how), other._node)
        if not isinstance(other, DataFrame) and not callable(other):
            hint = ": use its toDF" if hasattr(other, "toDF") else ""
            raise TypeError(
                "join takes a DataFrame, a function that returns one, or another stream of DataFrames, "
                f"not {type(other).__name__}{hint}"
            )
        return self.derive(_JoinStatic(other, on, how), is_plan=isinstance(other, DataFrame))

    def sql(self, query: str) -> DataFrameStream:
        if not isinstance(query, str):
            raise TypeError(f"sql takes the text of a query, not {shown(query)}")
        return self.derive(_Query(query))

    def transform(self, func: Callable[[DataFrame], DataFrame]) -> DataFrameStream:
        return self.derive(_require_callable(func), is_plan=False)

    # -- output operations --

    def foreachDataFrame(self, func: Callable[..., object]) -> None:
        ForEachDataFrame(self._node, with_time(func, 1, "func should take one or two arguments"))

    def foreachBatch(self, func: Callable[[DataFrame, int], object]) -> None:
        ForEachDataFrame(self._node, _require_callable(func), by_id=True)

    def pprint(self, n: int = 10) -> None:
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(f"pprint takes a number of rows, not {shown(n)}")
        ForEachDataFrame(self._node, PrintFrame(n))

    def rows(self) -> DStream[Row]:
        return DStream(DataFrameRowsDStream(self._node), self._ssc)

    # -- internal --

    def _call(self, method: str, *arguments: Any) -> DataFrameStream:
        for column in _flat(arguments):
            _require_column(method, column)
        return self.derive(_Call(method, arguments))

    def derive(self, function: Callable[..., Any], *others: DataFrameDStream, is_plan: bool = True) -> DataFrameStream:
        """The stream of a function's results for the batches of this stream and of other nodes."""
        node = TransformedDataFrameDStream((self._node, *others), function, is_plan=is_plan)
        return NodeDataFrameStream(node, self._ssc)


class NodeGroupedDataFrameStream(GroupedDataFrameStream):
    """The groups of each batch of a ``NodeDataFrameStream``.

    Args:
        stream: the batches.
        columns: the grouping columns and expressions.
    """

    def __init__(self, stream: NodeDataFrameStream, columns: Sequence[Any]) -> None:
        for column in _flat(columns):
            _require_column("groupBy", column)
        self._stream = stream
        self._columns = tuple(columns)

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrameStream:
        if not exprs:
            raise ValueError("agg needs at least one expression")
        for expression in exprs:
            if not isinstance(expression, dict):
                _require_column("agg", expression)
        return self._aggregated("agg", exprs)

    def count(self) -> DataFrameStream:
        return self._aggregated("count", ())

    def _aggregated(self, method: str, arguments: Sequence[Any]) -> DataFrameStream:
        return self._stream.derive(_Aggregate(self._columns, method, tuple(arguments)))


def _flat(arguments: Iterable[Any]) -> Iterator[Any]:
    """Flatten the arguments of an operator, which accepts columns and lists of columns."""
    for argument in arguments:
        yield from argument if isinstance(argument, list) else [argument]


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
        return jvm_frames.query(frame, self.text)


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


def _require_callable(func: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(func):
        raise TypeError(f"func must be a function, not {shown(func)}")
    return func
