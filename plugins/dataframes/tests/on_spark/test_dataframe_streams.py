"""DataFrame streams on Spark: every operator and end, over blocks, windows, unions, rows and files, in one program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.helpers.frame_programs import Run

from penstock import DStream, StreamingContext
from penstock.spi import node_of
from penstock_dataframes.frame_nodes import ToDataFrameDStream

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LINES = [[[["to be", "or not"]], [["to be"]]], [], [[["that is"], ["the question"]]]]
TABLES = [[], [[pa.table({"value": [1, 2], "price": [1.5, None]})]], []]


def words_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for batch in batches:
        yield pa.record_batch({"word": pc.list_flatten(pc.split_pattern(batch["value"], " "))})


class Seen:
    """The rows of each output by batch, counted from 1."""

    def __init__(self) -> None:
        self.batches: defaultdict[str, dict[int, list[tuple[Any, ...]]]] = defaultdict(dict)
        self.times: dict[str, list[Any]] = defaultdict(list)
        self.columns: dict[str, list[str]] = {}
        self.tables: list[pa.Table] = []

    def note(self, name: str) -> Any:
        def collect(df: DataFrame, batch_id: int) -> None:
            self.columns[name] = [f"{field.name} {field.dataType.simpleString()}" for field in df.schema]
            self.batches[name][batch_id // 1000] = sorted(map(tuple, df.collect()), key=repr)

        return collect


def temporary_views(spark: SparkSession) -> set[str]:
    return {row.viewName for row in spark.sql("SHOW VIEWS").collect() if row.isTemporary}


def next_job(sc: SparkContext) -> int:
    """The id that Spark gives to its next job."""
    spark: Any = sc._jsc.sc()
    spark.listenerBus().waitUntilEmpty(10_000)
    newest_first = spark.statusStore().jobsList(None)
    return int(newest_first.apply(0).jobId()) + 1 if newest_first.size() else 0


@pytest.fixture(scope="module")
def seen(sc: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What one program with all of them sees."""
    from pyspark.sql import SparkSession, functions as F

    found, folder = Seen(), tmp_path_factory.mktemp("blocks")
    files = tmp_path_factory.mktemp("files")

    def program(ssc: StreamingContext, lines: DStream[Any], tables: DStream[Any]) -> None:
        def keep(name: str, stream: Any) -> None:
            stream.foreachBatch(found.note(name))

        frame = lines.toDF()
        keep("lines", frame)
        words = frame.select(F.explode(F.split("value", " ")).alias("word"))
        keep("counts", words.groupBy("word").agg(F.count("*").alias("count")))
        keep("count", words.groupBy("word").count().where("count > 1").drop("count"))
        keep("sql", frame.sql("WITH lines AS (SELECT * FROM batch) SELECT count(*) AS n FROM lines -- all"))
        keep("sorted", frame.sql("SELECT value FROM batch ORDER BY value DESC LIMIT 1;"))
        keep("expressions", frame.selectExpr("upper(value) AS value").filter(F.col("value") != "TO BE"))
        keep("added", frame.withColumn("length", F.length("value")))
        keep("changed", frame.transform(lambda df: df.limit(1).select(F.lit(1).alias("one"))))
        known = SparkSession.builder.getOrCreate().createDataFrame([("to", 1)], "word string, known int")
        keep("joined", words.join(known, "word"))
        keep("joined by function", words.join(lambda: known, "word", "left_anti"))
        keep("joined with a stream", words.join(words.groupBy("word").count(), "word"))
        keep("window", lines.window(2).toDF())
        keep("union", lines.union(lines).toDF())
        keep("tables", tables.toDF())
        keep("declared", tables.toDF("price double, value string, more int"))
        keep("rows", lines.map(lambda line: (line, len(line))).toDF("line string, length int"))
        keep("values", lines.map(len).toDF("int"))
        reduced = lines.map(lambda line: (line, 1)).reduceByKey(lambda a, b: a + b, 3)
        keep("shuffled", reduced.toDF("line string, n int"))
        keep("partitions", reduced.mapPartitionsWithIndex(lambda index, _pairs: [index]).toDF("int"))
        keep("windowed rows", lines.window(2).map(lambda line: {"line": line}).toDF("line string, more int"))
        keep("rows again", words.rows().map(lambda row: row.word.upper()).toDF("string"))
        split = lines.mapInArrow(words_of)
        keep(
            "arrow",
            split.mapInPandas(lambda frames: (frame[frame["word"] > "o"] for frame in frames)).toDF("word string"),
        )
        keep("arrow counts", split.groupBy("word").count().toDF("word string, count int"))
        keep("arrow window", split.groupBy("word").window(2).agg(n=("*", "count")).toDF("word string, n long"))
        tables.groupBy().agg(total=("price", "sum"), mean=("value", "mean")).foreachTable(found.tables.append)
        keep("files", ssc.textFileStream(str(files)).toDF())
        lines.foreachDataFrame(lambda time, df: found.times["func(time, df)"].append((time, df.count())))
        tables.foreachDataFrame(lambda df: found.times["func(df)"].append(df.count()))
        (files / ".new").write_bytes(b"one\r\ntwo\nthree")
        (files / ".new").rename(files / "new")

    run, spark = Run(sc, folder), SparkSession.builder.getOrCreate()
    # Tests of other programs share this session, and may have left views of their own.
    views = {*temporary_views(spark), "batch"}
    spark.range(7).createOrReplaceTempView("batch")
    first_job = next_job(sc)
    run(program, LINES, TABLES, num_batches=3)
    assert run.errors == {}
    # The program's own view of that name.
    assert spark.table("batch").columns == ["id"]
    assert next_job(sc) > first_job
    job = sc._jsc.sc().statusStore().job(first_job)
    assert job.description().get() == "Preparation of DataFrames before the first batch"
    assert temporary_views(spark) == views
    spark.catalog.dropTempView("batch")
    return found


BATCHES: dict[str, dict[int, list[tuple[Any, ...]]]] = {
    "lines": {1: [("or not",), ("to be",), ("to be",)], 2: [], 3: [("that is",), ("the question",)]},
    "counts": {
        1: [("be", 2), ("not", 1), ("or", 1), ("to", 2)],
        2: [],
        3: [("is", 1), ("question", 1), ("that", 1), ("the", 1)],
    },
    "count": {1: [("be",), ("to",)], 2: [], 3: []},
    "sql": {1: [(3,)], 2: [(0,)], 3: [(2,)]},
    "sorted": {1: [("to be",)], 2: [], 3: [("the question",)]},
    "expressions": {1: [("OR NOT",)], 2: [], 3: [("THAT IS",), ("THE QUESTION",)]},
    "added": {1: [("or not", 6), ("to be", 5), ("to be", 5)], 2: [], 3: [("that is", 7), ("the question", 12)]},
    "changed": {1: [(1,)], 2: [], 3: [(1,)]},
    "joined": {1: [("to", 1), ("to", 1)], 2: [], 3: []},
    "joined by function": {
        1: [("be",), ("be",), ("not",), ("or",)],
        2: [],
        3: [("is",), ("question",), ("that",), ("the",)],
    },
    "joined with a stream": {
        1: [("be", 2), ("be", 2), ("not", 1), ("or", 1), ("to", 2), ("to", 2)],
        2: [],
        3: [("is", 1), ("question", 1), ("that", 1), ("the", 1)],
    },
    "window": {
        1: [("or not",), ("to be",), ("to be",)],
        2: [("or not",), ("to be",), ("to be",)],
        3: [("that is",), ("the question",)],
    },
    "union": {
        1: [("or not",), ("or not",), ("to be",), ("to be",), ("to be",), ("to be",)],
        2: [],
        3: [("that is",), ("that is",), ("the question",), ("the question",)],
    },
    # No schema is known in the first batch.
    "tables": {2: [(1, 1.5), (2, None)], 3: []},
    "declared": {1: [], 2: [(1.5, "1", None), (None, "2", None)], 3: []},
    "rows": {1: [("or not", 6), ("to be", 5), ("to be", 5)], 2: [], 3: [("that is", 7), ("the question", 12)]},
    "values": {1: [(5,), (5,), (6,)], 2: [], 3: [(12,), (7,)]},
    "shuffled": {1: [("or not", 1), ("to be", 2)], 2: [], 3: [("that is", 1), ("the question", 1)]},
    # Partitions without elements, too.
    "partitions": {1: [(0,), (1,), (2,)], 2: [(0,), (1,), (2,)], 3: [(0,), (1,), (2,)]},
    "windowed rows": {
        1: [("or not", None), ("to be", None), ("to be", None)],
        2: [("or not", None), ("to be", None), ("to be", None)],
        3: [("that is", None), ("the question", None)],
    },
    "arrow": {1: [("or",), ("to",), ("to",)], 2: [], 3: [("question",), ("that",), ("the",)]},
    "arrow counts": {
        1: [("be", 2), ("not", 1), ("or", 1), ("to", 2)],
        2: [],
        3: [("is", 1), ("question", 1), ("that", 1), ("the", 1)],
    },
    "arrow window": {
        1: [("be", 2), ("not", 1), ("or", 1), ("to", 2)],
        2: [("be", 2), ("not", 1), ("or", 1), ("to", 2)],
        3: [("is", 1), ("question", 1), ("that", 1), ("the", 1)],
    },
    "rows again": {
        1: [("BE",), ("BE",), ("NOT",), ("OR",), ("TO",), ("TO",)],
        2: [],
        3: [("IS",), ("QUESTION",), ("THAT",), ("THE",)],
    },
}


@pytest.mark.parametrize("output", BATCHES)
def test_every_batch_of_an_output_has_its_rows(seen: Seen, output: str) -> None:
    assert seen.batches[output] == BATCHES[output]


@pytest.mark.parametrize(
    ("output", "columns"),
    [
        ("lines", ["value string"]),
        ("tables", ["value bigint", "price double"]),
        ("declared", ["price double", "value string", "more int"]),
        ("values", ["value int"]),
        ("files", ["value string"]),
    ],
)
def test_an_empty_batch_has_the_schema_of_the_others(seen: Seen, output: str, columns: list[str]) -> None:
    assert seen.columns[output] == columns


def test_tables_of_batches_are_collected_once_their_columns_are_known(seen: Seen) -> None:
    # The first batch has no records.
    assert [table.to_pylist() for table in seen.tables] == [[{"total": 1.5, "mean": 1.5}], []]


def test_streams_of_sockets_have_a_schema_before_the_first_record(ssc: StreamingContext) -> None:
    streams = {"string": ssc.socketTextStream("127.0.0.1", 1), "binary": ssc.rawSocketStream("127.0.0.1", 1)}
    for data_type, stream in streams.items():
        node = ToDataFrameDStream(node_of(stream), None)
        # The public way, a DataFrame of an empty batch, needs a server at the other end.
        schema = node._schema(())
        assert schema is not None
        assert schema.struct.simpleString() == f"struct<value:{data_type}>"


def test_lines_of_files_are_read_once(seen: Seen) -> None:
    assert sorted(row for batch in seen.batches["files"].values() for row in batch) == [("one",), ("three",), ("two",)]
    assert set(seen.batches["files"]) == {1, 2, 3}


def test_an_output_function_takes_the_time_if_it_wants_to(seen: Seen) -> None:
    times, counts = zip(*seen.times["func(time, df)"], strict=True)
    assert all(isinstance(time, datetime) for time in times)
    assert counts == (3, 0, 2)
    assert seen.times["func(df)"] == [2, 0]
