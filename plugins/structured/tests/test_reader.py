"""``PenstockStreamReader`` as Spark calls it: offsets, partitions, rows, commits, restarts, limits, stops."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType
from tests.helpers import run_in_background, wait_for

from penstock import ConfigurationError, PenstockError, Receiver, SchemaError
from penstock.helpers import write_block_file
from penstock_structured import block_directory, data_source, source_process, source_run
from penstock_structured.block_directory import BlockDirectory, write_rate
from penstock_structured.data_source import BlocksPartition, PenstockDataSource, PenstockStreamReader
from penstock_structured.options import Source, SourceOptions

TEXT = StructType([StructField("value", StringType())])
CONF = {
    "spark.streaming.blockInterval": "5ms",
    "spark.penstock.receiver.relaunchDelay": "1ms",
    "spark.penstock.receiver.maxRestarts": "1",
}


class Idle(Receiver[Any]):
    def onStart(self) -> None:
        """The test stores."""


class Unstartable(Receiver[Any]):
    def onStart(self) -> None:
        raise OSError("no route to the source")


class Hanging(Receiver[Any]):
    released = threading.Event()

    def onStart(self) -> None:
        """The test stores."""

    def onStop(self) -> None:
        self.released.wait(60)


class Given(Source):
    """A source whose receiver the test has."""

    receiver: Receiver[Any] = Idle()

    def make_receiver(self) -> Receiver[Any]:
        receiver = type(self).receiver
        return Unstartable() if isinstance(receiver, Unstartable) else receiver


Make = Callable[..., PenstockStreamReader]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    # It is about a process of the source's own.
    monkeypatch.setattr(source_process, "prepare", lambda _stop: None)
    made: list[PenstockStreamReader] = []

    def make(receiver: Receiver[Any] | None = None, schema: StructType = TEXT, **options: Any) -> PenstockStreamReader:
        Given.receiver = receiver or Idle()
        source = Given(SourceOptions("socket", str(tmp_path / "query"), **options), {}, CONF)
        made.append(PenstockStreamReader(source, schema))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def started(reader: PenstockStreamReader, start: dict[str, int] | None = None) -> tuple[dict[str, int], Receiver[Any]]:
    """Have the reader start its receiver; return the offset and the receiver."""
    offset = reader.initialOffset() if start is None else start
    assert reader.latestOffset(offset, ReadAllAvailable()) is not None

    wait_for(Given.receiver.isStarted, "the receiver")
    return offset, Given.receiver


def rows(reader: PenstockStreamReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, Any]]:
    """What tasks read, each with a reader of its own."""
    partitions = reader.partitions(start, end)
    task = pickle.loads(pickle.dumps(reader))
    return [row for each in partitions for batch in task.read(each) for row in batch.to_pylist()]


def values(reader: PenstockStreamReader, start: dict[str, int], end: dict[str, int]) -> list[Any]:
    return [row["value"] for row in rows(reader, start, end)]


def test_what_was_stored_is_read_once_in_order(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a", "b"])
    receiver.store_all(["c"])
    end = reader.latestOffset(start, ReadAllAvailable())
    assert values(reader, start, end) == ["a", "b", "c"]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    reader.commit(end)
    report = reader.reportLatestOffset()
    assert report is not None
    assert (report["block"], report["rows"], report["batchRows"], report["rate"]) == (2, 0, 0, -1)


def test_the_blocks_of_a_committed_batch_are_deleted_without_another_call(make: Make, tmp_path: Path) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    reader.commit(reader.latestOffset(start, ReadAllAvailable()))
    wait_for(lambda: not list((tmp_path / "query").glob("*.arrow")), "the deletion")


def test_blocks_that_cannot_be_deleted_are_a_warning_and_the_receiver_continues(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_directory: BlockDirectory, _number: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(BlockDirectory, "delete_before", refuse)
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.commit(end)
    wait_for(lambda: "consumed blocks not deleted" in caplog.text, "the warning")
    receiver.store_all(["b"])
    assert reader.latestOffset(end, ReadAllAvailable()) == {"block": 2}


def test_constructing_and_pickling_a_reader_starts_nothing(make: Make, tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(make()))
    assert not (tmp_path / "query").exists()


def test_a_batch_that_was_planned_is_read_again_after_a_restart(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.stop()
    second = make()
    assert values(second, start, end) == ["a"]
    _offset, receiver = started(second, end)
    receiver.store_all(["b"])
    third = second.latestOffset(end, ReadAllAvailable())
    assert values(second, end, third) == ["b"]


def test_a_lost_directory_is_an_error_that_names_the_block(make: Make) -> None:
    with pytest.raises(PenstockError, match="block 3 of the query is missing"):
        make().partitions({"block": 3}, {"block": 5})


def test_after_a_lost_directory_numbers_continue_at_the_checkpoint(make: Make) -> None:
    reader = make()
    assert reader.partitions({"block": 5}, {"block": 5}) == []
    start, receiver = started(reader, {"block": 5})
    receiver.store_all(["a"])
    assert reader.latestOffset(start, ReadAllAvailable()) == {"block": 6}


def test_a_new_query_reads_what_an_earlier_one_has_left(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    receiver.store_all(["b"])
    reader.commit({"block": 1})
    reader.stop()
    second = make()
    start = second.initialOffset()
    assert values(second, start, second.latestOffset(start, ReadAllAvailable())) == ["b"]


def test_limits_of_options_and_triggers_are_honoured(make: Make) -> None:
    reader = make(maxRowsPerTrigger=3)
    start, receiver = started(reader)
    for each in ("ab", "cd", "ef"):
        receiver.store_all(list(each))
    assert reader.getDefaultReadLimit() == ReadMaxRows(3)
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == {"block": 1}
    assert reader.latestOffset(start, ReadAllAvailable()) == {"block": 3}
    second = make(maxRowsPerTrigger=5, maxBytesPerTrigger=1)
    reader.stop()
    assert second.latestOffset(start, second.getDefaultReadLimit()) == {"block": 1}


def test_available_now_ends_with_what_the_receiver_had_stored_when_it_was_quiet(make: Make) -> None:
    reader = make(quietPeriod=0.05, availableNowTimeout=60.0)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {"block": 1}
    assert reader.latestOffset(end, ReadAllAvailable()) == end

    late = run_in_background(lambda: receiver.store_all(["late"]))
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    reader.stop()
    late.exception(timeout=30)


def test_columns_are_found_by_name_and_converted_to_the_declared_schema(make: Make) -> None:
    reader = make(schema=StructType([StructField("b", DoubleType()), StructField("a", StringType())]))
    start, receiver = started(reader)
    receiver.store_arrow(pa.table({"a": ["x"], "b": [1], "c": [True]}))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert rows(reader, start, end) == [{"b": 1.0, "a": "x"}]


def test_a_block_that_does_not_fit_the_schema_is_an_error_with_both_types(make: Make) -> None:
    reader = make(schema=StructType([StructField("value", LongType())]))
    start, receiver = started(reader)
    receiver.store_all(["no number"])
    end = reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(SchemaError, match=r"'value' of a block, string, cannot be converted to int64"):
        rows(reader, start, end)


def test_pickled_records_are_refused_with_advice(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all([("a", 1)])
    end = reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(SchemaError, match=r"holds pickled records.*store_arrow"):
        rows(reader, start, end)


def raised_by(call: Callable[[], object]) -> str:
    """What a call raises; empty if it returns."""
    try:
        call()
    except PenstockError as error:
        return str(error)
    return ""


def test_a_receiver_that_was_given_up_fails_the_query_after_its_blocks_are_read(make: Make) -> None:
    reader = make(Unstartable())
    start = reader.initialOffset()
    reader.latestOffset(start, ReadAllAvailable())

    wait_for(
        lambda: "no route to the source" in raised_by(lambda: reader.latestOffset(start, ReadAllAvailable())),
        "the failure of the query",
    )


def test_the_receiver_pauses_at_the_bound_of_unprocessed_blocks_and_resumes_after_a_commit(make: Make) -> None:
    reader = make(maxBlocksBytes=1)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    second = run_in_background(lambda: receiver.store_all(["b"]))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {"block": 1}
    assert not second.done()
    reader.commit(end)
    wait_for(second.done, "the second store")
    assert reader.latestOffset(end, ReadAllAvailable()) == {"block": 2}


@pytest.mark.parametrize("has_start", [True, False])
def test_a_receiver_paused_at_the_bound_resumes_although_no_batch_follows(make: Make, has_start: bool) -> None:
    reader = make(maxBlocksBytes=1)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    second = run_in_background(lambda: receiver.store_all(["b"]))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert values(reader, start, end) == ["a"]
    # Spark commits a batch when it plans the next one, which there is not without data.
    wait_for(
        lambda: (reader.latestOffset(end, ReadAllAvailable()) if has_start else reader.latestOffset()) == {"block": 2},
        "the second block",
    )
    second.result(timeout=30)


def test_a_receiver_that_stays_paused_after_a_deletion_resumes_after_the_next_batch(make: Make) -> None:
    reader = make(maxBlocksBytes=100_000)
    start, receiver = started(reader)
    receiver.store_all(["x" * 10_000])
    first = reader.latestOffset(start, ReadAllAvailable())
    for _ in range(9):
        receiver.store_all(["x" * 10_000])
    last = run_in_background(lambda: receiver.store_all(["last"]))
    # Deletes one block of ten, which is not enough.
    end = reader.latestOffset(first, ReadAllAvailable())
    assert end == {"block": 10}
    assert not last.done()
    wait_for(lambda: reader.latestOffset(end, ReadAllAvailable()) == {"block": 11}, "the last block")
    last.result(timeout=30)


def test_before_pyspark_4_2_offsets_have_no_start(make: Make) -> None:
    reader = make(Unstartable())
    reader.initialOffset()
    reader.stop()
    reader = make()
    assert reader.partitions({"block": 5}, {"block": 5}) == []
    assert reader.latestOffset() == {"block": 5}
    wait_for(Given.receiver.isStarted, "the receiver")
    Given.receiver.store_all(["a"])
    assert reader.latestOffset() == {"block": 6}
    assert values(reader, {"block": 5}, {"block": 6}) == ["a"]
    Given.receiver.stop("over", OSError("gone"))
    wait_for(lambda: raised_by(reader.latestOffset), "the failure of the query")


def test_before_pyspark_4_2_limits_of_batches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_source, "limits", None)
    options = {"receiver": "synthetic", "blocks": "/blocks"}
    PenstockDataSource(options)
    with pytest.raises(ConfigurationError, match=r"need PySpark 4\.2"):
        PenstockDataSource({**options, "maxBytesPerTrigger": "5"})


def test_a_stop_during_the_wait_for_quiet_ends_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = make(quietPeriod=600.0, availableNowTimeout=600.0)
    start, _receiver = started(reader)
    reader.prepareForTriggerAvailableNow()
    monkeypatch.setattr(source_run, "end_reason", lambda: "over")
    assert reader.latestOffset(start, ReadAllAvailable()) == start


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"_parent": -1}, "the driver's JVM has ended"),
        ({"_signal": signal.SIGTERM}, "its process was sent SIGTERM"),
        ({"_local_dirs": (Path("/nowhere/blockmgr"),)}, "its SparkContext was stopped"),
    ],
)
def test_after_the_end_of_the_query_each_call_raises_the_reason(
    make: Make, monkeypatch: pytest.MonkeyPatch, what: dict[str, Any], reason: str
) -> None:
    reader = make()
    start, _receiver = started(reader)
    for name, value in {"_process": os.getpid(), "_parent": os.getppid(), **what}.items():
        monkeypatch.setattr(source_process, name, value)
    with pytest.raises(PenstockError, match=f"^the source of the query has ended: {reason}$"):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_full_disk_pauses_the_receiver_until_blocks_are_deleted(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])

    def write_if_empty(table: pa.Table, file: Any) -> tuple[int, int]:
        if list((tmp_path / "query").glob("*.arrow")):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_block_file(table, file)

    monkeypatch.setattr(block_directory, "write_block_file", write_if_empty)
    second = run_in_background(lambda: receiver.store_all(["b"]))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert values(reader, start, end) == ["a"]
    wait_for(lambda: reader.latestOffset(end, ReadAllAvailable()) == {"block": 2}, "the second block")
    second.result(timeout=30)


def test_a_receiver_that_hangs_in_on_stop_delays_the_stop_by_a_second(make: Make, tmp_path: Path) -> None:
    reader = make(Hanging())
    start, receiver = started(reader)
    receiver.store("a")
    try:
        reader.stop()
        # It still runs: what it stores must not get the numbers of the next run's blocks.
        BlockDirectory(tmp_path / "query", "socket").close()
        second = make()
        assert values(second, start, second.latestOffset(start, ReadAllAvailable())) == ["a"]
    finally:
        Hanging.released.set()


def test_a_rate_that_steer_has_written_is_in_force(make: Make, tmp_path: Path) -> None:
    reader = make(initialRate=10.0)
    # Of an earlier run: forgotten.
    (tmp_path / "query").mkdir()
    (tmp_path / "query" / "penstock-source.json").write_text('{"format": 1, "receiver": "socket"}')
    write_rate(tmp_path / "query", 5.0)
    _start, receiver = started(reader)
    assert receiver.rate_limit == 10.0
    write_rate(tmp_path / "query", 25.0)
    wait_for(lambda: receiver.rate_limit == 25.0, "the new rate")
    assert reader.reportLatestOffset()["rate"] == 25  # type: ignore[index]


def test_executors_elsewhere_fetch_blocks_with_the_token_of_the_partition(make: Make) -> None:
    reader = make(address="127.0.0.1")
    start, receiver = started(reader)
    receiver.store_all(["a"])
    end = reader.latestOffset(start, ReadAllAvailable())
    (partition,) = reader.partitions(start, end)
    assert isinstance(partition, BlocksPartition)
    assert partition.token.secret not in repr(partition)
    elsewhere = [evolve(each, path=f"/elsewhere/{each.block_id}") for each in partition.references]
    fetched = BlocksPartition(elsewhere, partition.token)
    assert [row for batch in reader.read(fetched) for row in batch.to_pylist()] == [{"value": "a"}]


def test_a_damaged_block_is_an_error_that_names_its_file(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    end = reader.latestOffset(start, ReadAllAvailable())
    (partition,) = reader.partitions(start, end)
    assert isinstance(partition, BlocksPartition)
    path = Path(partition.references[0].path)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(PenstockError, match=rf"{path.name} is damaged"):
        list(reader.read(partition))


def test_an_address_of_another_host_is_refused_by_option(make: Make) -> None:
    for _attempt in range(2):
        with pytest.raises(ConfigurationError, match=r"address='192\.0\.2\.1': the option must be"):
            make(address="192.0.2.1").initialOffset()


def test_a_block_that_this_host_cannot_read_is_an_error_with_advice(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert isinstance(partition, BlocksPartition)
    elsewhere = [evolve(each, path="/elsewhere/block") for each in partition.references]
    with pytest.raises(PenstockError, match=r"is not on this host: .*'address'"):
        list(reader.read(BlocksPartition(elsewhere, partition.token)))
