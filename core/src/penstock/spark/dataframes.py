"""DataFrames of a batch: from references that tasks read as Arrow, from rows, or empty. All but that is Spark's API.

The SparkSession is the program's, and only used: its configuration, views and functions apply, and nothing is set.
Called on the threads that run jobs and, for streams of rows, on the generator's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import RDD, SparkContext
from pyspark.serializers import BatchedSerializer

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: The name by which queries refer to the batch.
BATCH_VIEW = "batch"

_INSTALL = "pip install 'penstock[columnar]'"
# A query is analyzed when it is made: the view only needs to exist meanwhile, and outputs may run at the same time.
_view_lock = threading.Lock()


def require_pandas() -> None:
    """Check that pandas is installed, without which PySpark makes no DataFrame of Arrow data.

    Raises:
        ConfigurationError: it is missing, or a version that PySpark does not support.
    """
    try:
        version = metadata.version("pandas")
    except metadata.PackageNotFoundError:
        raise ConfigurationError(
            f"DataFrames need pandas >= 2.2, < 3, which PySpark uses and is not installed: {_INSTALL}"
        ) from None
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if not (2, 2) <= numbers < (3,):
        raise ConfigurationError(f"DataFrames need pandas >= 2.2, < 3, and pandas {version} is installed: {_INSTALL}")


def session(sc: SparkContext) -> SparkSession:
    """The program's SparkSession; created if the program has none yet.

    Raises:
        ConfigurationError: the session belongs to another SparkContext.
    """
    from pyspark.sql import SparkSession

    found = SparkSession.builder.getOrCreate()
    if found.sparkContext is not sc:
        raise ConfigurationError("the active SparkSession belongs to another SparkContext than the StreamingContext")
    return found


def of_references(
    spark: SparkSession,
    references: RDD[Any],
    read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
    *,
    with_index: bool,
) -> DataFrame:
    """A DataFrame of what tasks read from references.

    Args:
        spark: the program's session.
        references: elements pickled by Spark.
        read: from columns of pickled elements (and of the partition's index) to columns of the schema.
        schema: the columns of the DataFrame.
        with_index: whether ``read`` needs the partition's index.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import spark_partition_id

    jvm: Any = spark._jvm
    encoder = jvm.org.apache.spark.sql.Encoders.BINARY()
    elements = DataFrame(spark._jsparkSession.createDataset(references._jrdd.rdd(), encoder).toDF(), spark)
    if with_index:
        # The index in this RDD, also when the DataFrame is united with others.
        elements = elements.select("value", spark_partition_id())
    return elements.mapInArrow(read, schema)


def is_grouped(references: RDD[Any]) -> bool:
    """Whether each element that Spark has of an RDD is a pickled list of its elements."""
    return isinstance(references._jrdd_deserializer, BatchedSerializer)


def of_rows(spark: SparkSession, rows: RDD[Any], schema: StructType) -> DataFrame:
    """A DataFrame of rows, converted and checked by Spark."""
    return spark.createDataFrame(rows, schema)


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """A DataFrame without rows, of which Spark knows that it has none."""
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    java_schema = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), java_schema), spark)


def query(frame: DataFrame, text: str) -> DataFrame:
    """The result of a query in which ``batch`` is the DataFrame."""
    spark = frame.sparkSession
    with _view_lock:
        frame.createOrReplaceTempView(BATCH_VIEW)
        try:
            return spark.sql(text)
        finally:
            spark.catalog.dropTempView(BATCH_VIEW)


def as_table(frame: DataFrame, num_rows: int) -> str:
    """The first rows, drawn as ``DataFrame.show`` does."""
    return str(frame._jdf.showString(num_rows, 20, False))


def dump_column(column: Any) -> bytes:
    """Serialize a column expression, for a checkpoint.

    Raises:
        TypeError: it calls a Python function, which is bound to this run.
    """
    jvm: Any = SparkContext._jvm
    buffer = jvm.java.io.ByteArrayOutputStream()
    stream = jvm.java.io.ObjectOutputStream(buffer)
    stream.writeObject(column._jc.node())
    stream.close()
    data = bytes(buffer.toByteArray())
    if b"SimplePythonFunction" in data:
        raise TypeError("a column that calls a Python function cannot be saved: use transform(lambda df: ...) for it")
    return data


def load_column(data: bytes) -> Any:
    """Restore a column expression."""
    from pyspark.sql import Column

    jvm: Any = SparkContext._jvm
    stream = jvm.java.io.ObjectInputStream(jvm.java.io.ByteArrayInputStream(data))
    return Column(jvm.org.apache.spark.sql.Column(stream.readObject()))
