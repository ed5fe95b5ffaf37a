"""DataFrames: the batches of a stream as Spark DataFrames, for ``DStream.toDF`` and ``foreachDataFrame``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import DataFrameStream, hookimpl

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from penstock import DStream

__all__ = ["DataFrameStream", "dataframes"]


@hookimpl
def dataframes(stream: DStream[Any], schema: DataType | str | None) -> DataFrameStream:
    """Return the batches of a stream as DataFrames."""
    # Imported here, because tasks import this package, too.
    from penstock_dataframes.node_dataframe_stream import NodeDataFrameStream

    return NodeDataFrameStream.of_records(stream, schema)
