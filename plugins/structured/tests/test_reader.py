"""``PenstockStreamReader`` as Spark calls it: offsets, partitions, rows, commits, restarts, stops."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from plugins.structured.tests.readers import Given, Make, Unstartable, rows, started, values
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType
from tests.helpers import run_in_background, wait_for

from penstock import ConfigurationError, PenstockError, Receiver, SchemaError
from penstock_structured import block_directory, data_source, source_process, source_run
from penstock_structured.block_directory import BlockDirectory
from penstock_structured.data_source import BlocksPartition, PenstockDataSource


class Hanging(Receiver[Any]):
    released = threading.Event()

    def onStart(self) -> None:
        """The test stores."""

    def onStop(self) -> None:
        self.released.wait(60)


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
    assert report["receiver"] == "active"
    assert report.keys().isdisjoint({"error", "errorTime"})


def test_progress_says_that_a_source_without_data_fails_and_why(make: Make) -> None:
    reader = make(Unstartable(), conf={"spark.penstock.receiver.maxRestarts": "1000"})
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    def is_reported() -> bool:
        report = reader.reportLatestOffset()
        assert report is not None
        return "error" in report and report["receiver"] == "restarting"

    wait_for(is_reported, "the error of the receiver")
    report = reader.reportLatestOffset()
    assert report is not None
    assert "no route to the source" in report["error"]
    assert report["errorTime"] > 0


def test_long_errors_in_progress_are_cut_and_printable(make: Make) -> None:
    reader = make()
    _start, receiver = started(reader)
    receiver.reportError("\x1b" + "x" * 1000)
    wait_for(lambda: "error" in (reader.reportLatestOffset() or {}), "the error")
    error = (reader.reportLatestOffset() or {})["error"]
    assert len(error) == 500
    assert error.startswith("\ufffdx")


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


def test_the_report_of_a_batch_that_runs_again_has_its_rows(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a", "b"])
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.stop()
    second = make()
    second.partitions(start, start)
    second.partitions(start, end)
    report = second.reportLatestOffset()
    assert report is not None
    assert (report["batchRows"], report["rows"]) == (2, 0)


def test_a_lost_directory_is_an_error_that_names_the_block(make: Make) -> None:
    with pytest.raises(PenstockError, match="block 3 of the query is missing"):
        make().partitions({"block": 3}, {"block": 5})


@pytest.mark.parametrize("first_call", ["partitions", "latestOffset"])
def test_a_lost_directory_is_an_error_although_no_batch_is_planned(make: Make, tmp_path: Path, first_call: str) -> None:
    reader, offset = make(), {"block": 5}
    with pytest.raises(PenstockError, match=rf"continues at block 5, and the next block of {tmp_path}/query is 0"):
        reader.partitions(offset, offset) if first_call == "partitions" else reader.latestOffset(offset)
    assert not Given.receiver.isStarted()


def test_without_fail_on_data_loss_numbers_continue_at_the_checkpoint(make: Make) -> None:
    reader = make(failOnDataLoss=False)
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


def test_before_pyspark_4_2_offsets_have_no_start(make: Make) -> None:
    reader = make(Unstartable())
    reader.initialOffset()
    reader.stop()
    reader = make(failOnDataLoss=False)
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


def test_a_receiver_that_hangs_in_on_stop_at_a_restart_fails_the_query_after_its_blocks_are_read(make: Make) -> None:
    receiver = Hanging()
    receiver.released = threading.Event()  # its own
    reader = make(receiver, conf={"spark.penstock.receiver.stopTimeout": "1ms"})
    start, _receiver = started(reader)
    receiver.store_all(["a"])
    receiver.restart("connection lost")
    try:
        end = reader.latestOffset(start, ReadAllAvailable())
        assert values(reader, start, end) == ["a"]
        wait_for(
            lambda: "onStop has not returned for 0.001 s" in raised_by(lambda: reader.latestOffset(end)), "the failure"
        )
    finally:
        receiver.released.set()


def test_a_longer_timeout_of_on_stop_is_awaited_and_then_the_buffer_stored(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_run, "_STOP_S", 0.1)
    receiver = Hanging()
    receiver.released = threading.Event()  # its own
    conf = {"spark.penstock.receiver.stopTimeout": "60s", "spark.streaming.blockInterval": "1h"}
    reader = make(receiver, conf=conf)
    start, _receiver = started(reader)
    receiver.store("a")
    stopping = run_in_background(reader.stop)
    wait_for(receiver.isStopped, "the call of onStop")
    threading.Timer(0.3, receiver.released.set).start()
    stopping.result(timeout=60)
    second = make()
    assert values(second, start, second.latestOffset(start, ReadAllAvailable())) == ["a"]


def test_two_sources_with_one_directory_are_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_directory, "_LOCK_TIMEOUT_S", 0.0)
    make().initialOffset()
    with pytest.raises(
        ConfigurationError, match="each query, and each source of a query, needs a directory of its own"
    ):
        make().initialOffset()


def test_a_source_that_has_ended_opens_nothing(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(source_process, "end_reason", lambda: "its SparkContext was stopped")
    with pytest.raises(PenstockError, match="the source of the query has ended"):
        make().initialOffset()
    assert not (tmp_path / "query").exists()


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


def test_blocks_are_served_from_the_configured_port(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reader = make(address="127.0.0.1", conf={"spark.penstock.receiver.port": str(port)})
    start, receiver = started(reader)
    receiver.store_all(["a"])
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert isinstance(partition, BlocksPartition)
    assert partition.references[0].source == f"grpc://127.0.0.1:{port}"


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


def test_a_damaged_block_is_not_served_to_executors_elsewhere(make: Make) -> None:
    reader = make(address="127.0.0.1")
    start, receiver = started(reader)
    receiver.store_all(["a"])
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert isinstance(partition, BlocksPartition)
    path = Path(partition.references[0].path)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    elsewhere = [evolve(each, path=f"/elsewhere/{each.block_id}") for each in partition.references]
    with pytest.raises(PenstockError, match=rf"{path.name} \(1 records\) cannot be fetched .*{path.name} is damaged"):
        list(reader.read(BlocksPartition(elsewhere, partition.token)))


def test_an_address_of_another_host_is_refused_by_option(make: Make) -> None:
    for _attempt in range(2):
        with pytest.raises(ConfigurationError, match=r"address='192\.0\.2\.1': .*The address must be this host's"):
            make(address="192.0.2.1").initialOffset()


def test_a_block_that_this_host_cannot_read_is_an_error_with_advice(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert isinstance(partition, BlocksPartition)
    elsewhere = [evolve(each, path="/elsewhere/block") for each in partition.references]
    with pytest.raises(PenstockError, match=r"block /elsewhere/block is not on this host, .*'address'"):
        list(reader.read(BlocksPartition(elsewhere, partition.token)))


def test_a_block_that_was_deleted_below_a_query_is_an_error_that_says_so(make: Make) -> None:
    reader = make()
    start, receiver = started(reader)
    receiver.store_all(["a"])
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert isinstance(partition, BlocksPartition)
    (reference,) = partition.references
    Path(reference.path).unlink()
    words = rf"{reference.block_id} is not on this host, {socket.gethostname()}\. .* driver's host, .* was deleted"
    with pytest.raises(PenstockError, match=words):
        list(reader.read(partition))
