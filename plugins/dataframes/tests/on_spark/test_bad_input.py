"""What a batch's DataFrame does with records that do not fit, lost blocks, and batches of unusual size."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from tests.helpers.engine_parts import LocatedPartition, PartitionBounds, batch_input, partitions_of
from tests.helpers.frame_programs import Run
from tests.helpers.stored_blocks import StoredBlocks

from penstock import ConfigurationError, DataFrameStream, DStream, StreamingContext
from penstock.spi import node_of

pytestmark = pytest.mark.spark

NUMBERS = [[pa.table({"value": [1, None]})]]
TEXTS = [[pa.table({"value": ["x"]})]]
SKEWED = [[["same"] * 20_000 + ["other"]], [["same"]]]
# More blocks than the files that a process may have open (1,024 by default).
TINY = [[["a"]] * 1_900, [["b"]] * 100]
NUM_TINY = 10_000
HUGE = list(range(40_000))
NESTED = pa.table({"a": [[{"b": [1, None]}], None], "c": [b"\0\xff", None], "d": pa.array([1, None], pa.uint64())})


def test_a_batch_that_does_not_fit_fails_alone_and_says_why(run: Run) -> None:
    counts: dict[str, list[int]] = {}
    outputs: list[str] = []

    def program(_ssc: StreamingContext, changing: DStream[Any]) -> None:
        def counted(name: str, stream: Any) -> None:
            outputs.append(name)
            stream.foreachDataFrame(lambda df: counts.setdefault(name, []).append(len(df.collect())))

        counted("learned", changing.toDF())
        counted("declared", changing.toDF("value string"))
        counted("not null", changing.toDF("value string NOT NULL"))
        counted("narrow", changing.toDF("value int"))
        counted("no column", changing.toDF().select("nothing"))
        counted("no frame", changing.toDF().transform(lambda df: df.count()))  # type: ignore[arg-type,return-value]
        counted("no frame to join", changing.toDF().join(lambda: None))  # type: ignore[arg-type,return-value]
        counted("no query", changing.toDF().sql("SELEKT 1"))
        counted("command", changing.toDF().sql("INSERT INTO t SELECT * FROM batch"))
        counted("other columns", changing.toDF("word string"))
        counted("rows", changing.map(lambda value: {"value": value}).toDF("value bigint"))

    run(program, [NUMBERS, TEXTS, NUMBERS], num_batches=3)
    assert counts == {
        "learned": [2, 2],
        "declared": [2, 1, 2],
        "not null": [1],
        "narrow": [2, 2],
        "rows": [2, 2],
        "other columns": [],
    }
    errors = {(number, outputs[output]): reason for (number, output), reason in run.errors.items()}
    expected = {
        (2, "learned"): "it was (value int64), and there is a block with (value string)",
        (1, "not null"): "1 values of the column 'value' are null, and the schema says NOT NULL",
        (2, "narrow"): "the column 'value' of a block, string, cannot be converted to int32",
        (2, "rows"): "a value of the column 'value' does not fit int64: 'x'",
        (1, "no column"): "nothing",
        (1, "no frame"): "the function returned int, not a DataFrame",
        (1, "no frame to join"): "the function given to join returned NoneType, not a DataFrame",
        (1, "no query"): "SELEKT 1\n",
        (1, "command"): "sql takes one query, and no command, which each batch would run again: 'INSERT",
        (1, "other columns"): "none of the columns of the declared schema (word string): it has (value int64)",
    }
    for key, reason in expected.items():
        assert reason in errors[key], key
    assert {number for number, name in errors if name == "not null"} == {1, 3}


def test_batches_of_unusual_shapes_are_read(run: Run) -> None:
    found: dict[str, list[Any]] = {}

    def program(_ssc: StreamingContext, *streams: DStream[Any]) -> None:
        skewed, tiny, nested, distinct, huge = streams

        def collect(name: str, stream: Any) -> None:
            stream.foreachDataFrame(lambda df: found.update({name: sorted(map(tuple, df.collect()), key=repr)}))

        collect("skewed", skewed.toDF().groupBy("value").count())
        collect("tiny", tiny.toDF().groupBy("value").count())
        numbered = tiny.toDF().selectExpr("spark_partition_id() AS number")
        collect("partitions", numbered.sql("SELECT count(DISTINCT number) FROM batch"))
        collect("nested", nested.toDF().selectExpr("a[0].b[0]", "hex(c)", "d"))
        make_distinct(distinct)
        collect("distinct", distinct.toDF().groupBy("value").count())
        cut_in_two(huge)
        pieces = huge.toDF().selectExpr("value", "spark_partition_id() AS number")
        collect("pieces", pieces.sql("SELECT number, count(*), sum(value) FROM batch GROUP BY number"))

    run(program, [SKEWED], [TINY], [[[NESTED]]], [[[["a"]]]], [[[HUGE]]], num_batches=1)
    assert run.errors == {}
    assert found["skewed"] == [("other", 1), ("same", 20_001)]
    assert found["tiny"] == [("a", 1_900), ("b", 100)]
    assert found["partitions"] == [(2,)]
    assert [tuple(map(str, row)) for row in found["nested"]] == [("1", "00FF", "1"), ("None", "None", "None")]
    assert found["distinct"] == [("a", NUM_TINY)]
    assert found["pieces"] == [(0, 20_000, sum(HUGE[:20_000])), (1, 20_000, sum(HUGE[20_000:]))]


def make_distinct(stream: DStream[Any]) -> None:
    """Make the only block of a stream many, in files of their own."""
    ((partition,),) = batches = stored_partitions(stream)
    (block,) = partition.element
    blocks = [evolve(block, block_id=f"{n}", path=f"{block.path}-{n}") for n in range(NUM_TINY)]
    for each in blocks:
        os.link(block.path, each.path)
    # Too large to travel with each task. The limit is no setting, so it has no public name.
    assert len(pickle.dumps(tuple(blocks))) > batch_input._SENT_WITH_TASKS_BYTES
    batches[0] = [LocatedPartition(tuple(blocks))]


def cut_in_two(stream: DStream[Any]) -> None:
    """Cut the only block of a stream between two partitions, as it is if it is larger than one of them."""
    ((partition,),) = batches = stored_partitions(stream)
    (block,) = partition.element
    size = Path(block.path).stat().st_size
    batches[0] = partitions_of([("", size, block)], 2, PartitionBounds(1, size - 1))
    assert [len(each.element) for each in batches[0]] == [1, 1]
    assert [piece.records for each in batches[0] for piece in each.element] == [(0, 20_000), (20_000, None)]


def stored_partitions(stream: DStream[Any]) -> list[list[LocatedPartition]]:
    """The partitions of each batch, which may be replaced."""
    node: Any = node_of(stream)
    # The fault is injected into the stored blocks of the test's own stream.
    batches: list[list[LocatedPartition]] = node._blocks._batches[node.id]
    return batches


@pytest.mark.parametrize(("skips", "rows"), [(False, []), (True, [2])])
def test_a_lost_block_fails_the_batch_or_is_left_out(
    run: Run, monkeypatch: pytest.MonkeyPatch, skips: bool, rows: list[int]
) -> None:
    # The fault is injected: the block is lost after it was written.
    write, found = StoredBlocks._write, list[int]()

    def lose(blocks: StoredBlocks, block_id: str, records: Any) -> Any:
        reference = write(blocks, block_id, records)
        if records == ["lost"]:
            Path(reference.path).unlink()
        return reference

    def program(_ssc: StreamingContext, lines: DStream[Any]) -> None:
        stored: Any = node_of(lines)
        # The reader of a stream of stored blocks takes no setting from the context.
        stored._blocks.reader = evolve(stored._blocks.reader, skips_lost=skips)
        lines.foreachDataFrame(lambda df: found.append(df.count()))

    monkeypatch.setattr(StoredBlocks, "_write", lose)
    # The schema is that of the first block that is not lost.
    run(program, [[[["lost"], ["a", "b"]]]], num_batches=1)
    assert found == rows
    assert (1, 0) in run.errors or skips
    assert all("is lost" in reason for reason in run.errors.values())


def test_a_table_is_printed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run(lambda _ssc, lines: lines.toDF().pprint(1), [[[["a", "b"]]]], num_batches=1)
    printed = capsys.readouterr().out
    assert "|value|\n+-----+\n|    a|\n+-----+\nonly showing top 1 row" in printed
    assert printed.startswith("-" * 43 + "\nTime: ")


def test_a_plan_that_spark_refuses_fails_the_start_and_names_the_line(run: Run) -> None:
    def program(_ssc: StreamingContext, lines: DStream[Any]) -> None:
        lines.toDF("value string").select("value").where("wrod = 'a'").pprint()

    with pytest.raises(ConfigurationError, match=r"^where at test_bad_input\.py:\d+: \[UNRESOLVED_COLUMN.*wrod"):
        run(program, [], num_batches=0)


def test_plans_over_names_that_may_exist_later_and_foreign_functions_are_not_analyzed_at_the_start(run: Run) -> None:
    streams: list[DataFrameStream] = []
    called: list[Any] = []

    def note(df: Any) -> Any:
        called.append(df)
        return df

    def program(_ssc: StreamingContext, lines: DStream[Any]) -> None:
        frame = lines.toDF("value string")
        streams.extend((frame, frame.sql("SELECT * FROM batch JOIN created_later USING (value)"), lines.toDF()))
        for stream in streams:
            stream.transform(note).selectExpr("created_later(value)").pprint()

    run(program, [], num_batches=0)
    assert repr(streams[0]).endswith(": value: string>")
    assert [repr(stream).endswith(": columns known after the start>") for stream in streams] == [False, True, True]
    assert called == []
