"""Turns the elements of RDDs into DataFrames. The only module of this plugin that calls the JVM through Py4J.

It uses the program's SparkSession, with its configuration, views and functions, and changes nothing in it. Called on
the threads that run jobs and, for streams of rows, on the generator's loop.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
from attrs import frozen
from pyspark import RDD, SparkContext
from pyspark.core.rdd import PipelinedRDD
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer

from penstock import ConfigurationError
from penstock.spi import ResultTypeError, shown
from penstock_dataframes.schemas import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.spi import DStreamGraph

ReadFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# Maximum number of cached DataFrames of elements.
_MAX_ELEMENTS = 64

_view_numbers = itertools.count()


def require_pandas() -> None:
    """Check that pandas is installed, because PySpark needs it to create a DataFrame from Arrow data.

    Raises:
        ConfigurationError: pandas is missing, or PySpark does not support its version.
    """
    advice = "pip install penstock-dataframes"
    try:
        version = metadata.version("pandas")
    except metadata.PackageNotFoundError:
        raise ConfigurationError(
            f"DataFrames need pandas >= 2.2, < 3, which PySpark uses and is not installed: {advice}"
        ) from None
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if not (2, 2) <= numbers < (3,):
        raise ConfigurationError(f"DataFrames need pandas >= 2.2, < 3, and pandas {version} is installed: {advice}")


def session(sc: SparkContext) -> SparkSession:
    """The program's SparkSession, created if the program has none yet.

    Raises:
        ConfigurationError: the session belongs to another SparkContext.
    """
    from pyspark.sql import SparkSession

    # The builder would return the same session, but only after several calls to the JVM.
    current = SparkSession._instantiatedSession
    if current is None or current.sparkContext._jsc is None:
        current = SparkSession.builder.getOrCreate()
    if current.sparkContext is not sc:
        raise ConfigurationError(
            "the active SparkSession belongs to another SparkContext than the StreamingContext: pass its "
            "spark.sparkContext to StreamingContext, or stop that session first"
        )
    return current


@frozen
class Elements:
    """An RDD in the JVM: pickled elements, which a task turns into records.

    Attributes:
        java_rdd: an RDD of bytes.
        is_grouped: whether each of its elements is a pickled list of elements.
        function: the partition function from elements to records; ``None`` if the elements are the records.
    """

    java_rdd: Any
    is_grouped: bool
    function: Callable[[int, Iterable[Any]], Iterable[Any]] | None = None


def unpiped(rdd: RDD[Any]) -> Elements:
    """The elements that Spark passes to an RDD's Python function, and the function; without one, the RDD's elements."""
    if isinstance(rdd, PipelinedRDD) and has_function(rdd):
        is_grouped = _is_grouped(rdd._prev_jrdd_deserializer)
        if is_grouped is not None:
            return Elements(rdd._prev_jrdd, is_grouped, rdd.func)
    return pickled(rdd)


def has_function(rdd: RDD[Any]) -> bool:
    """Whether a partition function computes the RDD from another one, and the RDD is not persisted."""
    return isinstance(rdd, PipelinedRDD) and rdd._is_pipelinable() and not rdd._is_barrier()


def pickled(rdd: RDD[Any]) -> Elements:
    """The elements of an RDD. Spark first converts elements that are not pickled, such as those of ``sc.textFile``."""
    if _is_grouped(rdd._jrdd_deserializer) is None:
        rdd = rdd._reserialize(AutoBatchedSerializer(CPickleSerializer()))
    return Elements(rdd._jrdd, bool(_is_grouped(rdd._jrdd_deserializer)))


def _is_grouped(serializer: Any) -> bool | None:
    """Whether elements are pickled in lists; ``None`` if they are not pickled at all."""
    if isinstance(serializer, CPickleSerializer):
        return False
    return True if isinstance(getattr(serializer, "serializer", None), CPickleSerializer) else None


class BatchFrames:
    """Creates the DataFrames of one graph's batches. Any thread may call it; ``of`` gives the graph's only instance."""

    _instances: ClassVar[WeakKeyDictionary[DStreamGraph, BatchFrames]] = WeakKeyDictionary()
    _instances_lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def of(cls, graph: DStreamGraph) -> BatchFrames:
        """The instance that all nodes of a graph share."""
        with cls._instances_lock:
            return cls._instances.setdefault(graph, cls(graph))

    def __init__(self, graph: DStreamGraph) -> None:
        self._sc = graph.spark_context
        self._slots = graph.placeholder_rdds
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        # DataFrames of elements that several batches share, by RDD of the JVM and arguments of _rows. Creating one
        # takes about 5 ms.
        self._elements: dict[tuple[Any, ...], DataFrame] = {}
        self._is_prepared = False

    def read(
        self, elements: Elements, read: ReadFunction, schema: StructType, num_partitions: int | None = None
    ) -> DataFrame:
        """A DataFrame of the records that tasks read from elements.

        Args:
            elements: the batch's elements.
            read: function from a column of elements to columns of the schema. If ``elements`` has a function, a second
                column contains the partition's index.
            schema: the columns of the DataFrame.
            num_partitions: the number of partitions of the elements; ``None`` if unknown.
        """
        with self._lock:
            rows = self._rows(elements.java_rdd, elements.function is not None, num_partitions == 1)
        return rows.mapInArrow(read, schema)

    def prepare(self, tasks: int, read: ReadFunction, schema: StructType) -> None:
        """At the first call, run a small query of the same kind as those of batches.

        The first query of a JVM loads thousands of classes and starts the Python workers for DataFrames. That takes
        seconds, which would delay the first batch.

        Args:
            tasks: number of tasks, each of which reads rows in a Python worker.
            read: ignores the elements, and returns a column of the schema.
            schema: a schema of one column.
        """
        with self._lock:
            if self._is_prepared:
                return
            self._is_prepared = True
        self._sc.setJobDescription("Preparation of DataFrames before the first batch")
        frame = self.read(pickled(self._slots.at([()] * tasks)), read, schema)
        (name,) = schema.names
        # The aggregation by key follows one without a key, so its shuffle has one partition whatever is configured.
        frame.groupBy().agg({name: "max"}).toDF(name).groupBy(name).count().collect()

    def united(self, frames: Sequence[DataFrame], schema: StructType) -> DataFrame:
        """The union of DataFrames with this schema; without any, a DataFrame that Spark knows to be empty."""
        if frames:
            return functools.reduce(lambda united, frame: united.union(frame), frames)
        return session(self._sc).createDataFrame(to_arrow(schema).empty_table(), schema)

    def _rows(self, java_rdd: Any, has_index: bool, is_single: bool) -> DataFrame:
        """The DataFrame of an RDD's elements; ``is_single``: the RDD has one partition."""
        spark = session(self._sc)
        if spark is not self._spark:
            self._spark = spark
            self._elements.clear()
        key = (java_rdd._target_id, has_index, is_single)
        if key in self._elements:
            return self._elements[key]
        from pyspark.sql import DataFrame
        from pyspark.sql.functions import spark_partition_id

        jvm: Any = spark._jvm
        rows = DataFrame(spark._jsparkSession.createDataset(java_rdd.rdd(), jvm.Encoders.BINARY()).toDF(), spark)
        if is_single:
            # Spark does not know that the RDD has one partition. If it does, it aggregates by key without a shuffle.
            rows = rows.coalesce(1)
        if has_index:
            # The partition's index in this RDD, even if the DataFrame is united with others.
            rows = rows.withColumn("index", spark_partition_id())
        if self._slots.has(java_rdd):
            self._elements[key] = rows
            if len(self._elements) > _MAX_ELEMENTS:
                del self._elements[next(iter(self._elements))]
        return rows


def query(frame: DataFrame, text: str) -> DataFrame:
    """The result of a query in which ``batch`` is the DataFrame.

    Raises:
        ParseException: the text is not a query.
        ResultTypeError: the text is a command, such as INSERT.
    """
    from pyspark.errors import ParseException

    spark: Any = frame.sparkSession
    # A unique name, because outputs run concurrently and the program may have a view named `batch`. Spark analyzes the
    # query at once, so the view only needs to exist until then.
    view = f"_penstock_batch_{next(_view_numbers)}"
    frame.createOrReplaceTempView(view)
    try:
        return cast("DataFrame", spark.sql(f"WITH batch AS (SELECT * FROM {view}) SELECT * FROM (\n{_bare(text)}\n)"))
    except ParseException:
        # Raises for errors in the text itself.
        spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        raise ResultTypeError(
            f"sql takes one query, and no command, which each batch would run again: {shown(text)}. Run a command with "
            "df.sparkSession.sql in foreachDataFrame"
        ) from None
    finally:
        spark.catalog.dropTempView(view)


def _bare(text: str) -> str:
    return text.strip().removesuffix(";")


def as_table(frame: DataFrame, num_rows: int) -> str:
    """The first rows as a table, as ``DataFrame.show`` prints it."""
    return str(frame._jdf.showString(num_rows, 20, False))
