"""What type checkers make of a program's operators: never run, checked by mypy and pyright."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, assert_type

import pyarrow as pa
from pyspark import RDD, StorageLevel
from pyspark.resultiterable import ResultIterable
from pyspark.sql import DataFrame, Row, functions as F
from pyspark.sql.types import IntegerType, StructType

from penstock import DataFrameStream, DStream, GroupedDStream, StreamingContext


def word_count(ssc: StreamingContext) -> None:
    lines = ssc.socketTextStream("localhost", 9999)
    assert_type(lines, DStream[str])
    words = lines.flatMap(lambda line: line.split())
    assert_type(words, DStream[str])
    pairs = words.map(lambda word: (word, 1))
    assert_type(pairs, DStream[tuple[str, int]])
    counts = pairs.reduceByKey(lambda a, b: a + b)
    assert_type(counts, DStream[tuple[str, int]])
    assert_type(counts.map(lambda pair: pair[1]), DStream[int])
    counts.pprint()


def one_stream(numbers: DStream[int]) -> None:
    assert_type(numbers.map(str), DStream[str])
    assert_type(numbers.filter(lambda n: n > 1), DStream[int])
    assert_type(numbers.flatMap(range), DStream[int])
    assert_type(numbers.glom(), DStream[list[int]])
    assert_type(numbers.mapPartitions(lambda records: [sum(records)]), DStream[int])
    assert_type(
        numbers.mapPartitionsWithIndex(lambda index, records: [(index, max(records))]), DStream[tuple[int, int]]
    )
    assert_type(numbers.reduce(lambda a, b: a + b), DStream[int])
    assert_type(numbers.count(), DStream[int])
    assert_type(numbers.map(str).countByValue(), DStream[tuple[str, int]])
    assert_type(numbers.repartition(2), DStream[int])
    assert_type(numbers.cache(), DStream[int])
    assert_type(numbers.persist(StorageLevel.MEMORY_ONLY), DStream[int])
    assert_type(numbers.checkpoint(10), DStream[int])
    assert_type(numbers.setName("numbers"), DStream[int])
    assert_type(numbers.slice(datetime.now(), 5), list[RDD[int]])
    assert_type(numbers.context(), StreamingContext)
    assert_type(numbers.id, int)


def transforms(numbers: DStream[int], words: DStream[str]) -> None:
    def with_time(time: datetime, rdd: RDD[int]) -> RDD[str]:
        return rdd.map(lambda n: f"{time}: {n}")

    def of_two(left: RDD[int], right: RDD[str]) -> RDD[tuple[int, str]]:
        return left.zip(right)

    def of_two_with_time(time: datetime, left: RDD[int], right: RDD[str]) -> RDD[bytes] | None:
        return None

    assert_type(numbers.transform(lambda rdd: rdd.map(str)), DStream[str])
    assert_type(numbers.transform(with_time), DStream[str])
    assert_type(numbers.transformWith(of_two, words), DStream[tuple[int, str]])
    assert_type(numbers.transformWith(of_two_with_time, words), DStream[bytes])


def outputs(numbers: DStream[int], found: list[int]) -> None:
    def output(rdd: RDD[int]) -> None:
        found.extend(rdd.collect())

    def output_with_time(time: datetime, rdd: RDD[int]) -> None: ...

    numbers.foreachRDD(output)
    numbers.foreachRDD(output_with_time)
    numbers.foreachRDD(lambda rdd: found.extend(rdd.collect()))
    numbers.foreachRDD(lambda time, rdd: found.append(rdd.count() + time.year))
    numbers.foreachRDD(lambda rdd, found=found: found.extend(rdd.collect()))


def several_streams(ssc: StreamingContext, numbers: DStream[int], words: DStream[str]) -> None:
    assert_type(ssc.union(numbers, numbers), DStream[int])
    assert_type(numbers.union(words), DStream[int | str])
    assert_type(ssc.transform([numbers, numbers], lambda rdds: rdds[0].union(rdds[1]).map(str)), DStream[str])


def first_of_list(value: int) -> list[int]:
    return [value]


def append(values: list[int], value: int) -> list[int]:
    return [*values, value]


def concatenate(left: list[int], right: list[int]) -> list[int]:
    return left + right


def pairs(stream: DStream[tuple[str, int]], other: DStream[tuple[str, bytes]]) -> None:
    assert_type(stream.mapValues(float), DStream[tuple[str, float]])
    assert_type(stream.flatMapValues(lambda n: [str(n)]), DStream[tuple[str, str]])
    assert_type(stream.groupByKey(), DStream[tuple[str, Iterable[int]]])
    assert_type(stream.partitionBy(2), DStream[tuple[str, int]])
    assert_type(
        stream.combineByKey(first_of_list, append, concatenate),
        DStream[tuple[str, list[int]]],
    )
    assert_type(stream.join(other), DStream[tuple[str, tuple[int, bytes]]])
    assert_type(stream.leftOuterJoin(other), DStream[tuple[str, tuple[int, bytes | None]]])
    assert_type(stream.rightOuterJoin(other), DStream[tuple[str, tuple[int | None, bytes]]])
    assert_type(stream.fullOuterJoin(other), DStream[tuple[str, tuple[int | None, bytes | None]]])
    assert_type(stream.cogroup(other), DStream[tuple[str, tuple[ResultIterable[int], ResultIterable[bytes]]]])


def windows(numbers: DStream[int], stream: DStream[tuple[str, int]]) -> None:
    assert_type(numbers.window(30, 10), DStream[int])
    assert_type(numbers.reduceByWindow(lambda a, b: a + b, lambda a, b: a - b, 30, 10), DStream[int])
    assert_type(numbers.countByWindow(30, 10), DStream[int])
    assert_type(numbers.countByValueAndWindow(30, 10), DStream[tuple[int, int]])
    assert_type(stream.groupByKeyAndWindow(30, 10), DStream[tuple[str, Iterable[int]]])
    assert_type(stream.reduceByKeyAndWindow(lambda a, b: a + b, None, 30), DStream[tuple[str, int]])
    assert_type(
        stream.reduceByKeyAndWindow(lambda a, b: a + b, lambda a, b: a - b, 30, 10, 2, lambda pair: pair[1] > 0),
        DStream[tuple[str, int]],
    )


def what_is_wrong_is_seen(numbers: DStream[int], stream: DStream[tuple[str, int]]) -> None:
    numbers.map(len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    numbers.reduceByKey(max)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    stream.mapValues(len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    stream.join(numbers)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def columns(lines: DStream[str]) -> None:
    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    words = lines.mapInArrow(split)
    assert_type(words, DStream[Any])
    assert_type(lines.mapInArrow(lambda batches: [batch.to_pandas() for batch in batches]), DStream[Any])
    assert_type(lines.mapInPandas(lambda frames: (frame.head(1) for frame in frames)), DStream[Any])
    assert_type(words.groupBy("word"), GroupedDStream)
    assert_type(words.groupBy("word").count(), DStream[Any])
    assert_type(words.groupBy("word").window(60, 10).agg({"n": "max"}, total=("n", "sum")), DStream[Any])
    assert_type(words.foreachTable(lambda table: print(table.num_rows)), None)
    assert_type(words.foreachTable(lambda time, table: print(time, table.num_rows)), None)


def data_frames(lines: DStream[str], static: DataFrame) -> None:
    frame = lines.toDF()
    assert_type(frame, DataFrameStream)
    assert_type(lines.toDF("value string"), DataFrameStream)
    assert_type(lines.map(len).toDF(IntegerType()), DataFrameStream)
    assert_type(lines.toDF(StructType().add("value", "string")), DataFrameStream)
    words = frame.select(F.explode(F.split("value", " ")).alias("word"))
    assert_type(words, DataFrameStream)
    assert_type(frame.select("value", F.col("value")).selectExpr("value").drop("value", F.col("a")), DataFrameStream)
    assert_type(frame.where("a > 1").filter(F.col("a") > 1).withColumn("b", F.lit(1)), DataFrameStream)
    assert_type(words.groupBy("word", F.col("a")).agg(F.count("*"), {"a": "max"}), DataFrameStream)
    assert_type(words.groupBy(["word"]).count(), DataFrameStream)
    assert_type(words.join(static, "word"), DataFrameStream)
    assert_type(words.join(lambda: static, ["word"], "left"), DataFrameStream)
    assert_type(words.join(words, F.col("word") == F.col("word")), DataFrameStream)
    assert_type(frame.sql("SELECT * FROM batch"), DataFrameStream)
    assert_type(frame.transform(lambda df: df.orderBy("value").limit(3)), DataFrameStream)
    assert_type(words.rows(), DStream[Row])
    assert_type(words.rows().map(lambda row: str(row["word"])), DStream[str])
    lines.foreachDataFrame(lambda df: df.show())
    lines.foreachDataFrame(lambda time, df: print(time.isoformat(), df.count()))
    words.foreachDataFrame(lambda df: df.show())
    words.foreachBatch(lambda df, batch_id: print(batch_id + 1, df.count()))
    words.pprint(5)
