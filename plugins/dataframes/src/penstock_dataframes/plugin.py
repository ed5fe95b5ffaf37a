"""The plugin: the hooks that ``DStream.toDF`` and the operators on columns call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import hookimpl

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from penstock import DataFrameStream, DStream


@hookimpl
def dataframes(stream: DStream[Any], schema: DataType | str | None) -> DataFrameStream:
    """Return the batches of a stream as DataFrames."""
    # Imported here, because every executor loads every installed plugin.
    from penstock_dataframes.node_dataframe_stream import NodeDataFrameStream

    return NodeDataFrameStream.of_records(stream, schema)


@hookimpl
def columns(stream: DStream[Any], operator: str, arguments: tuple[Any, ...]) -> Any:
    """Return the result of an operator on columns."""
    from penstock_dataframes.column_operators import OPERATORS

    return OPERATORS[operator](stream, *arguments)
