"""The plugin: the hook that ``DStream.toDF`` calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import DataFrameStream, hookimpl
from penstock_dataframes.node_dataframe_stream import NodeDataFrameStream

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from penstock import DStream


@hookimpl
def dataframes(stream: DStream[Any], schema: DataType | str | None) -> DataFrameStream:
    """Return the batches of a stream as DataFrames."""
    return NodeDataFrameStream.of_records(stream, schema)
