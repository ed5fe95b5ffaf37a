"""The plugin: the hook that ``DStream.toDF`` calls."""

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
