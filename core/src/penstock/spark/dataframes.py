"""DataFrames of a batch: of elements that tasks read as Arrow, or empty. All but that is Spark's API.

The SparkSession is the program's, and only used: its configuration, views and functions apply, and nothing is set.
Called on the threads that run jobs and, for streams of rows, on the generator's loop.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from attrs import frozen
from pyspark import RDD, SparkContext
from pyspark.core.rdd import PipelinedRDD, _prepare_for_python_RDD
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer

from penstock.errors import ConfigurationError, ResultTypeError, shown
from penstock.spark.rdds import PartitionSlots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ReadFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_INSTALL = "pip install 'penstock-core[columnar]'"
# DataFrames of elements that are remembered.
_MAX_ELEMENTS = 64

_view_numbers = itertools.count()


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

    # The builder returns this one, after several calls of the JVM.
    found = SparkSession._instantiatedSession
    if found is None or found.sparkContext._jsc is None:
        found = SparkSession.builder.getOrCreate()
    if found.sparkContext is not sc:
        raise ConfigurationError(
            "the active SparkSession belongs to another SparkContext than the StreamingContext: pass its "
            "spark.sparkContext to StreamingContext, or stop that session first"
        )
    return found


@frozen
class Elements:
    """An RDD as the JVM has it: pickled elements, of which a task makes the records.

    Attributes:
        java_rdd: its elements are bytes.
        is_grouped: each of them is a pickled list of elements.
        function: the partition function from elements to records; ``None`` when the elements are the records.
    """

    java_rdd: Any
    is_grouped: bool
    function: Callable[[int, Iterable[Any]], Iterable[Any]] | None = None


def unpiped(rdd: RDD[Any]) -> Elements:
    """The elements that Spark passes to the Python function of an RDD, and the function; else those of the RDD."""
    if isinstance(rdd, PipelinedRDD) and has_function(rdd):
        is_grouped = _is_grouped(rdd._prev_jrdd_deserializer)
        if is_grouped is not None:
            return Elements(rdd._prev_jrdd, is_grouped, rdd.func)
    return pickled(rdd)


def has_function(rdd: RDD[Any]) -> bool:
    """Whether an RDD is what a partition function makes of another one, and not persisted."""
    return isinstance(rdd, PipelinedRDD) and rdd._is_pipelinable() and not rdd._is_barrier()


def pickled(rdd: RDD[Any]) -> Elements:
    """The elements of an RDD; Spark converts them first if they are not pickled, such as those of ``sc.textFile``."""
    if _is_grouped(rdd._jrdd_deserializer) is None:
        rdd = rdd._reserialize(AutoBatchedSerializer(CPickleSerializer()))
    return Elements(rdd._jrdd, bool(_is_grouped(rdd._jrdd_deserializer)))


def _is_grouped(serializer: Any) -> bool | None:
    """Whether elements are pickled in lists; ``None`` when they are not pickled at all."""
    if isinstance(serializer, CPickleSerializer):
        return False
    return True if isinstance(getattr(serializer, "serializer", None), CPickleSerializer) else None


class BatchFrames:
    """Makes the DataFrames of batches.

    What batches share is made once, because each call of the JVM takes a tenth of a millisecond or more: DataFrames of
    elements that several batches have, the arguments of the tasks' function, and all of it but its code.

    Args:
        sc: runs the jobs.
        slots: the RDDs that batches share.
    """

    def __init__(self, sc: SparkContext, slots: PartitionSlots) -> None:
        self._sc, self._slots = sc, slots
        self._lock = threading.Lock()
        self._renew(None)

    def _renew(self, spark: SparkSession | None) -> None:
        self._spark = spark
        # By RDD of the JVM, and whether there is a column with the partition's index.
        self._elements: dict[tuple[str, bool], Any] = {}
        # By name and result of the tasks' function: its parts in the JVM.
        self._functions: dict[tuple[str, str], tuple[Any, list[Any]]] = {}
        self._environment: tuple[Any, ...] = ()
        # The arguments of the function.
        self._arguments: dict[bool, Any] = {}
        self._empty: dict[str, DataFrame] = {}

    def read(self, elements: Elements, read: ReadFunction, schema: StructType) -> DataFrame:
        """A DataFrame of what tasks read from elements.

        Args:
            elements: the batch's elements, which tasks read from.
            read: from a column of elements, and one of the partition's index if ``elements`` has a function, to columns
                of the schema.
            schema: the columns of the DataFrame.
        """
        from pyspark.sql import DataFrame

        with self._lock:
            spark, has_index = self._session(), elements.function is not None
            rows = self._rows(spark, elements.java_rdd, has_index)
            function, arguments = self._function(read, schema), self._arguments[has_index]
        return DataFrame(rows.mapInArrow(function.apply(arguments), False, None), spark)

    def prepare(self, tasks: int, read: ReadFunction, schema: StructType) -> None:
        """Run a small query of the same kind as those of batches.

        The first query of a JVM loads thousands of classes and starts the Python workers for DataFrames. That takes
        seconds, which would delay the first batch.

        Args:
            tasks: how many tasks read rows, each in a Python worker.
            read: ignores the elements, and gives a column of the schema.
            schema: the only column.
        """
        self._sc.setJobDescription("Preparation of DataFrames before the first batch")
        frame = self.read(pickled(self._slots.at([()] * tasks)), read, schema)
        (name,) = schema.names
        # The aggregation by key follows one without: its shuffle has one partition, whatever the program configures.
        frame.groupBy().agg({name: "max"}).toDF(name).groupBy(name).count().collect()

    def united(self, frames: Sequence[DataFrame], schema: StructType) -> DataFrame:
        """The rows of several DataFrames of a schema; if there are none, one of which Spark knows that it is empty."""
        if frames:
            return functools.reduce(lambda united, frame: united.union(frame), frames)
        from pyspark.sql import DataFrame

        with self._lock:
            spark, key = self._session(), schema.json()
            if key not in self._empty:
                jvm: Any = spark._jvm
                java_schema = jvm.org.apache.spark.sql.types.DataType.fromJson(key)
                java_frame = spark._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), java_schema)
                self._empty[key] = DataFrame(java_frame, spark)
            return self._empty[key]

    def _session(self) -> SparkSession:
        spark = session(self._sc)
        if spark is not self._spark:
            from pyspark.sql import functions

            self._renew(spark)
            value, index = functions.col("value")._jc, functions.col("index")._jc
            to_seq = spark._jvm.PythonUtils.toSeq  # type: ignore[union-attr]
            self._arguments = {False: to_seq([value]), True: to_seq([value, index])}
        return spark

    def _rows(self, spark: SparkSession, java_rdd: Any, has_index: bool) -> Any:
        """The DataFrame of an RDD's elements."""
        key = (java_rdd._target_id, has_index)
        if key in self._elements:
            return self._elements[key]
        from pyspark.sql.functions import spark_partition_id

        jvm: Any = spark._jvm
        rows = spark._jsparkSession.createDataset(java_rdd.rdd(), jvm.Encoders.BINARY()).toDF()
        if has_index:
            # The index in this RDD, also when the DataFrame is united with others.
            rows = rows.withColumn("index", spark_partition_id()._jc)
        if self._slots.has(java_rdd):
            # As an RDD of Spark's rows, which the plan of each batch begins with, instead of with how they are made.
            rows = spark._jsparkSession.internalCreateDataFrame(rows.queryExecution().toRdd(), rows.schema(), False)
            self._elements[key] = rows
            if len(self._elements) > _MAX_ELEMENTS:
                del self._elements[next(iter(self._elements))]
        return rows

    def _function(self, read: ReadFunction, schema: StructType) -> Any:
        """The JVM's form of a function; made by PySpark once for each schema, and then copied with other code."""
        key = (type(read).__name__, schema.json())
        if key not in self._functions:
            from pyspark.sql.udf import UserDefinedFunction
            from pyspark.util import PythonEvalType

            made: Any = UserDefinedFunction(read, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)._judf
            self._functions[key] = made, [made.productElement(number) for number in range(made.productArity())]
        made, (name, _function, *others) = self._functions[key]
        return made.copy(name, self._code(read, schema), *others)

    def _code(self, read: ReadFunction, schema: StructType) -> Any:
        sc: Any = self._sc
        command, broadcasts, variables, includes = _prepare_for_python_RDD(sc, (read, schema))
        known = (dict(variables), list(includes))
        if self._environment[:1] != (known,):
            lists = sc._jvm.java.util.ArrayList
            java_variables, java_includes = sc._jvm.java.util.HashMap(), lists()
            java_variables.update(variables)
            java_includes.extend(includes)
            self._environment = known, java_variables, java_includes, lists()
        _known, java_variables, java_includes, nothing = self._environment
        return sc._jvm.SimplePythonFunction(
            bytearray(command),
            java_variables,
            java_includes,
            sc.pythonExec,
            sc.pythonVer,
            broadcasts or nothing,
            sc._javaAccumulator,
        )


def query(frame: DataFrame, text: str) -> DataFrame:
    """The result of a query in which ``batch`` is the DataFrame.

    Raises:
        ParseException: the text is no query.
        ResultTypeError: it is a command, such as INSERT.
    """
    from pyspark.errors import ParseException

    spark: Any = frame.sparkSession
    # A name of its own: outputs run at the same time, and the program may have a view that is named `batch`. The query
    # is analyzed when it is made: the view only needs to exist meanwhile.
    view = f"_penstock_batch_{next(_view_numbers)}"
    frame.createOrReplaceTempView(view)
    try:
        return cast("DataFrame", spark.sql(f"WITH batch AS (SELECT * FROM {view}) SELECT * FROM (\n{_bare(text)}\n)"))
    except ParseException:
        # Raises for what is wrong in the text itself.
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
