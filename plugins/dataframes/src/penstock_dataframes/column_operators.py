"""The operators on columns: ``mapInArrow``, ``mapInPandas``, ``groupBy`` and ``foreachTable``.

A stream stays a ``DStream``, with all its operators on records. Its tasks pass record batches from function to
function, and create Python objects only for an operator on records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock import ConfigurationError, DStream, GroupedDStream
from penstock.spi import ForEachDStream, MapPartitionsDStream, get_logger, node_of, shown, with_time
from penstock_dataframes.aggregation import ALL, Aggregate, Aggregation, CombinedAggregates, PartialAggregates
from penstock_dataframes.column_batches import require_equal, serialized
from penstock_dataframes.jvm_frames import require_pandas
from penstock_dataframes.map_batches import MapBatches, PandasFunction

if TYPE_CHECKING:
    from penstock.spi import Node

log = get_logger("column_operators")


def map_in_arrow(stream: DStream[Any], func: Callable[..., Any]) -> DStream[Any]:
    """``mapInArrow``."""
    return _mapped(stream, MapBatches(_require_callable("mapInArrow", func), "mapInArrow"))


def map_in_pandas(stream: DStream[Any], func: Callable[..., Any]) -> DStream[Any]:
    """``mapInPandas``.

    Raises:
        ConfigurationError: pandas is missing, or PySpark does not support its version.
    """
    require_pandas()
    return _mapped(stream, MapBatches(PandasFunction(_require_callable("mapInPandas", func)), "mapInPandas"))


def for_each_table(stream: DStream[Any], func: Callable[..., Any]) -> ForEachTable:
    """``foreachTable``; returns the output operation."""
    function = with_time(func, 1, "func should take one or two arguments")
    return ForEachTable(MapPartitionsDStream(node_of(stream), serialized, False), function)


def _mapped(stream: DStream[Any], function: Callable[..., Any]) -> DStream[Any]:
    return DStream(MapPartitionsDStream(node_of(stream), function, False), stream.context())


def _require_callable(operator: str, func: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(func):
        raise TypeError(f"{operator} takes a function, not {shown(func)}")
    return func


class NodeGroupedDStream(GroupedDStream):
    """The groups of a stream's records.

    Args:
        stream: the records.
        columns: the names of the columns of the groups.
        window: the durations of the window and its slide in seconds; ``None`` for batches.
    """

    def __init__(
        self, stream: DStream[Any], columns: tuple[object, ...], window: tuple[float, float | None] | None = None
    ) -> None:
        names = [column for argument in columns for column in (argument if isinstance(argument, list) else [argument])]
        self._stream = stream
        self._columns = tuple(map(_require_name, names))
        self._window = window
        _require_distinct(self._columns)

    def window(self, windowDuration: float, slideDuration: float | None = None) -> GroupedDStream:
        return NodeGroupedDStream(self._stream, self._columns, (windowDuration, slideDuration))

    def agg(self, *exprs: dict[str, str], **aggregates: tuple[str, str]) -> DStream[Any]:
        parsed = [
            Aggregate.of(f"{function}({'1' if column == ALL else column})", column, function)
            for expression in exprs
            for column, function in _items(expression)
        ]
        parsed += [Aggregate.of(name, *_pair(name, value)) for name, value in aggregates.items()]
        if not parsed:
            raise ValueError("agg needs at least one aggregate, such as total=('price', 'sum')")
        _require_distinct((*self._columns, *(aggregate.name for aggregate in parsed)))
        aggregation = Aggregation(self._columns, tuple(parsed))
        partials = _mapped(self._stream, PartialAggregates(aggregation))
        if self._window is not None:
            partials = partials.window(*self._window)
        return _mapped(partials.groupByKey(1), CombinedAggregates(aggregation))

    def count(self) -> DStream[Any]:
        return self.agg(count=(ALL, "count"))


def _require_name(column: object) -> str:
    if not isinstance(column, str):
        raise TypeError(f"groupBy takes names of columns, not {shown(column)} ({type(column).__name__})")
    return column


def _items(expression: object) -> Iterable[tuple[Any, Any]]:
    if not isinstance(expression, dict):
        raise TypeError(
            f"agg takes dictionaries such as {{'price': 'max'}}, or arguments such as total=('price', 'sum'), not "
            f"{shown(expression)}. Expressions of Spark are for DataFrames: toDF().groupBy(...).agg(...)"
        )
    return expression.items()


def _pair(name: str, value: object) -> tuple[Any, Any]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"agg takes a column and a function, such as total=('price', 'sum'); {name} is {shown(value)}")
    return value


def _require_distinct(names: tuple[str, ...]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigurationError(f"two columns of the result would be named {repeated[0]!r}")


class ForEachTable(ForEachDStream):
    """An output operation that collects every batch as a table, and passes it to a function of the program.

    A batch without record batches is an empty table with the columns of earlier batches. Without these it is skipped.

    Args:
        parent: the stream of Arrow streams.
        function: called with the batch's datetime and the table.
    """

    def __init__(self, parent: Node, function: Callable[..., object]) -> None:
        super().__init__(parent, function)
        self.restored()

    def program_state(self) -> dict[str, Any]:
        return {**super().program_state(), "_schema": None}

    def restored(self) -> None:
        self._schema: pa.Schema | None = None

    def call(self, time_ms: int, batch: Any) -> None:
        tables = [pa.ipc.open_stream(stream).read_all() for stream in batch.collect()]
        schema = self._schema or (tables[0].schema if tables else None)
        if schema is None:
            log.debug("empty batch skipped, schema unknown", batch_time=time_ms, operation=self.call_site.short)
            return
        for table in tables:
            require_equal(table.schema, schema, "a partition or batch has")
        self._schema = schema
        table = pa.concat_tables([table.cast(schema) for table in tables]) if tables else schema.empty_table()
        self.function(self.datetime_of(time_ms), table)


#: The functions of the operators, called with the stream and the operator's arguments.
OPERATORS: dict[str, Callable[..., Any]] = {
    "mapInArrow": map_in_arrow,
    "mapInPandas": map_in_pandas,
    "groupBy": lambda stream, *columns: NodeGroupedDStream(stream, columns),
    "foreachTable": for_each_table,
}
