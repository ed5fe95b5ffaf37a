"""Files that appear in directories, batch by batch, under a manual clock; and files that grow, followed.

A long file, because all of it needs the same streams on Spark.
"""

from __future__ import annotations

import gzip
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from pyspark import SparkContext
from pyspark.accumulators import _accumulatorRegistry
from tests.helpers import graph_of

from penstock import DStream, StreamingContext, StreamingListener
from penstock.errors import BatchFailedError
from penstock.spi import node_of
from penstock_file.directory_pattern import DirectoryPattern
from penstock_testing import ManualClock

pytestmark = pytest.mark.spark


class Steps(StreamingListener):
    """A context whose batches come when the test says so.

    Args:
        sc: runs the jobs.
        interval_s: between two batches.
    """

    def __init__(self, sc: SparkContext, interval_s: float = 2.0) -> None:
        self.clock = ManualClock(1_000_000)
        self.ssc = StreamingContext(sc, interval_s, clock=self.clock)
        self.ssc.addStreamingListener(self)
        self.collected: dict[int, list[Any]] = {}
        self.partitions: list[int] = []
        self.infos: list[Any] = []
        self._completed = threading.Condition()
        self._started = False

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        with self._completed:
            self.infos.append(batchCompleted.batchInfo)
            self._completed.notify_all()

    def collect(self, *streams: DStream[Any]) -> None:
        for number, stream in enumerate(streams):
            stream.foreachRDD(lambda rdd, number=number: self._collect(number, rdd))

    def _collect(self, number: int, rdd: Any) -> None:
        self.partitions.append(rdd.getNumPartitions())
        self.collected[number] = rdd.collect()

    def step(self) -> list[Any]:
        """Run a batch, and return what the first stream had in it."""
        if not self._started:
            self._started = True
            self.ssc.start()
        self.collected.clear()
        seen = len(self.infos)
        self.clock.await_waiters()
        self.clock.advance(graph_of(self.ssc).batch_interval_ms)
        with self._completed:
            assert self._completed.wait_for(lambda: len(self.infos) > seen, 60.0)
        return sorted(self.collected.get(0, []))

    @property
    def info(self) -> Any:
        """What the last batch's first stream gave."""
        return self.infos[-1].streamIdToInputInfo[0]

    @property
    def failure(self) -> str:
        """Why the last batch failed."""
        reasons = [
            outputOperationInfo.failureReason for outputOperationInfo in self.infos[-1].outputOperationInfos.values()
        ]
        return "\n".join(reason for reason in reasons if reason)


@pytest.fixture
def steps(sc: SparkContext) -> Iterator[Steps]:
    steps = Steps(sc)
    yield steps
    steps.ssc.stop(stopSparkContext=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def put(path: Path, data: str | bytes, age_s: float | None = 60) -> None:
    """Write a file whose modification time is ``age_s`` ago; None: now."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    if age_s is not None:
        now_ns = path.stat().st_mtime_ns - int(age_s * 1e9)
        os.utime(path, ns=(now_ns, now_ns))


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the log was warned of by the plugin."""

    def warnings() -> list[str]:
        found = [record for record in caplog.records if record.name == "penstock.file"]
        return [record.getMessage() for record in found if record.levelno == logging.WARNING]

    return warnings


Warnings = Callable[[], list[str]]


@pytest.mark.parametrize("new_files_only", [True, False])
def test_each_batch_reads_the_files_that_are_new(steps: Steps, folder: Path, new_files_only: bool) -> None:
    put(folder / "0", "0\n")
    steps.collect(steps.ssc.fileStream(str(folder), newFilesOnly=new_files_only))
    seen = []
    for number in range(1, 6):
        put(folder / str(number), f"{number}\n", age_s=None)
        seen += steps.step()
    assert seen == [str(number) for number in range(1 if new_files_only else 0, 6)]
    assert steps.step() == []


def test_text_files_are_split_into_lines_and_decompressed(steps: Steps, folder: Path) -> None:
    steps.collect(steps.ssc.textFileStream(str(folder)))
    assert steps.step() == []
    put(folder / "a", b"one\r\ntwo\xff\n\nthree", age_s=None)
    put(folder / "b.gz", gzip.compress(b"four\n"), age_s=1e9)
    assert steps.step() == sorted(["one", "two\ufffd", "", "three", "four"])
    assert steps.step() == []


def test_a_directory_that_is_renamed_into_the_pattern(steps: Steps, folder: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    steps.collect(steps.ssc.textFileStream(f"{folder}/*/"))
    steps.step()
    # Spark reads only those whose time lies in its window.
    put(away / "new", "new\n", age_s=None)
    put(away / "old", "old\n", age_s=1e6)
    put(away / "future", "future\n", age_s=-1e6)
    away.rename(folder / "here")
    assert steps.step() == ["future", "new", "old"]


def test_files_and_bytes_of_a_batch_are_capped(steps: Steps, folder: Path) -> None:
    for number in range(5):
        put(folder / str(number), f"{number}\n", age_s=100 - number)
    options = {"directory": str(folder), "new_files_only": False}
    by_files = steps.ssc.input_stream("text-file", max_files_per_batch=2, **options)
    by_bytes = steps.ssc.input_stream("text-file", max_bytes_per_batch=6, **options)
    steps.collect(by_files, by_bytes)
    batches = []
    for _ in range(3):
        steps.step()
        batches.append([steps.collected[number] for number in (0, 1)])
    assert batches == [[["0", "1"], ["0", "1", "2"]], [["2", "3"], ["3", "4"]], [["4"], []]]


def test_options_come_from_the_configuration(
    make_ssc: Callable[..., StreamingContext], folder: Path, collect: Any, wait_for: Callable[..., None]
) -> None:
    for number in range(3):
        put(folder / str(number), f"{number}\n", age_s=100 - number)
    key = "spark.penstock.input.text-file."
    ssc = make_ssc(conf={f"{key}max_files_per_batch": "1", f"{key}new_files_only": "false"})
    batches = collect(ssc.textFileStream(str(folder)))
    ssc.start()
    wait_for(lambda: len(batches.records) == 3, "three files")
    assert [batch for batch in batches.all if batch] == [["0"], ["1"], ["2"]]


def test_a_large_file_is_read_by_several_tasks(steps: Steps, folder: Path) -> None:
    lines = [f"{number} " + "x" * (number % 200) for number in range(200_000)]
    steps.collect(steps.ssc.textFileStream(str(folder)))
    put(folder / "large", "\r\n".join(lines))
    steps.step()
    assert steps.collected[0] == lines
    assert steps.partitions[-1] > 1
    assert steps.info.numRecords == 200_000


# -- what is reported about a batch --


def test_records_are_counted_once_when_the_batch_is_done(steps: Steps, folder: Path) -> None:
    lines = steps.ssc.textFileStream(str(folder))
    steps.collect(lines, lines.map(len), lines.flatMap(str.split))
    put(folder / "a", "one two\n" * 1000)
    put(folder / "b", "three\n" * 10)
    steps.step()
    assert len(steps.collected[2]) == 2010
    assert steps.info.numRecords == steps.infos[-1].numRecords == 1010
    assert steps.info.metadata["files"] == [str(folder / "a"), str(folder / "b")]
    assert steps.info.metadataDescription == f"2 files, 8060 bytes: {folder}/a, {folder}/b"
    steps.step()
    assert steps.infos[-1].numRecords == 0


def test_windows_read_files_again_and_count_them_once(steps: Steps, folder: Path) -> None:
    steps.collect(steps.ssc.textFileStream(str(folder)).window(6))
    counts = []
    for number in range(4):
        put(folder / str(number), f"{number}\n" * (number + 1))
        steps.step()
        counts.append((len(steps.collected[0]), steps.info.numRecords))
    assert counts == [(1, 1), (3, 2), (6, 3), (9, 4)]


def test_the_description_of_a_batchs_files_is_bounded(steps: Steps, folder: Path) -> None:
    steps.collect(steps.ssc.textFileStream(str(folder)))
    for number in range(300):
        put(folder / f"{number:03}-{'x' * 200}", "x\n")
    assert len(steps.step()) == 300
    assert len(steps.info.metadataDescription) < 600
    assert steps.info.metadataDescription.endswith(" and 295 more")
    assert len(steps.info.metadata["files"]) == 300


def test_many_batches_leave_nothing_behind(steps: Steps, folder: Path) -> None:
    before = len(_accumulatorRegistry)
    stream = steps.ssc.textFileStream(str(folder))
    steps.collect(stream)
    for number in range(20):
        put(folder / str(number), "x\n")
        assert steps.step() == ["x"]
    # No public name for a leak: record counts of old batches.
    source: Any = node_of(stream)._source  # type: ignore[attr-defined]
    assert len(_accumulatorRegistry) == before + 1
    assert len(source._record_counts._batches) < 5


# -- records of fixed length --


def test_binary_files_are_cut_into_records_of_fixed_length(steps: Steps, folder: Path) -> None:
    # Two streams on one directory, with different lengths.
    ssc = steps.ssc
    steps.collect(ssc.binaryRecordsStream(str(folder), 10), ssc.binaryRecordsStream(str(folder), 4))
    put(folder / "a", b"0123456789" * 2)
    steps.step()
    assert steps.collected == {0: [b"0123456789"] * 2, 1: [b"0123", b"4567", b"8901", b"2345", b"6789"]}
    assert [info.numRecords for info in steps.infos[-1].streamIdToInputInfo.values()] == [2, 5]


def test_records_of_the_wrong_length_fail_their_batch_alone(steps: Steps, folder: Path) -> None:
    steps.collect(steps.ssc.binaryRecordsStream(str(folder), 4))
    put(folder / "bad", b"01234")
    steps.step()
    assert steps.infos[-1].succeeded is False
    for words in (f"{folder}/bad", "has 5 bytes", "record_length=4"):
        assert words in steps.failure
    put(folder / "good", b"0123")
    assert steps.step() == [b"0123"]
    with pytest.raises(BatchFailedError, match="has 5 bytes"):
        steps.ssc.awaitTermination(1)


# -- functions of the program --


def words_of(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    for line in file:
        for word in line.split():
            yield Path(file.name).name, word


def test_file_stream_applies_the_filter_and_the_read_function(steps: Steps, folder: Path) -> None:
    steps.collect(steps.ssc.fileStream(str(folder), filter=lambda path: path.endswith(".txt"), read=words_of))
    put(folder / "a.txt", "one two\nthree\n")
    put(folder / "b.csv", "four\n")
    assert steps.step() == [("a.txt", b"one"), ("a.txt", b"three"), ("a.txt", b"two")]
    assert steps.info.numRecords == 3


def test_a_function_that_raises_stop_iteration_is_an_error(steps: Steps, folder: Path) -> None:
    steps.collect(steps.ssc.fileStream(str(folder), read=lambda file: [next(iter([]))]))
    put(folder / "a", "x")
    steps.step()
    assert "StopIteration" in steps.failure
    assert f"{folder}/a" in steps.failure


# -- what can be wrong with files and directories --


def test_a_missing_directory_is_warned_about_once_and_read_when_it_exists(
    steps: Steps, folder: Path, warnings: Warnings
) -> None:
    missing = folder / "later"
    steps.collect(steps.ssc.textFileStream(str(missing)))
    for _ in range(3):
        assert steps.step() == []
    (warning,) = warnings()
    assert f"{missing} does not exist" in warning
    missing.mkdir()
    put(missing / "a", "a\n")
    assert steps.step() == ["a"]
    assert len(warnings()) == 1


def test_a_directory_that_disappears_is_read_again_when_it_is_back(steps: Steps, folder: Path, tmp_path: Path) -> None:
    steps.collect(steps.ssc.textFileStream(str(folder)))
    put(folder / "a", "a\n")
    assert steps.step() == ["a"]
    folder.rename(tmp_path / "away")
    assert steps.step() == []
    (tmp_path / "away").rename(folder)
    put(folder / "b", "b\n")
    assert steps.step() == ["b"]


def test_a_listing_that_fails_loses_nothing(
    steps: Steps, folder: Path, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.collect(steps.ssc.textFileStream(str(folder)))
    put(folder / "a", "a\n")

    def fail(*_arguments: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("penstock_file.directory_pattern.DirectoryPattern._asked", fail)
        assert steps.step() == []
        assert steps.step() == []
    (warning,) = warnings()
    assert "directory not listed" in warning
    assert "Input/output error" in warning
    assert steps.step() == ["a"]


def test_a_slow_listing_holds_no_batch(
    sc: SparkContext, folder: Path, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(sc, interval_s=0.1)
    steps.collect(steps.ssc.textFileStream(str(folder)))
    go_on, listed, listing = threading.Event(), threading.Event(), DirectoryPattern.listing

    def slow(place: DirectoryPattern) -> Any:
        go_on.wait(60)
        found = listing(place)
        listed.set()
        return found

    monkeypatch.setattr(DirectoryPattern, "listing", slow)
    put(folder / "a", "a\n")
    try:
        assert steps.step() == []
        assert steps.step() == []
        (warning,) = warnings()
        assert "directory listing too slow" in warning
        go_on.set()
        assert listed.wait(60)
        assert list(itertools.takewhile(lambda batch: not batch, (steps.step() for _ in range(10)))) != [[]] * 10
    finally:
        go_on.set()
        steps.ssc.stop(stopSparkContext=False)


@pytest.mark.parametrize("damage", ["gone", "shrunk", "broken", "refused"])
def test_a_file_that_cannot_be_read_fails_its_batch_alone(steps: Steps, folder: Path, damage: str) -> None:
    if damage == "refused" and os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    name = "bad.gz" if damage == "broken" else "bad"

    def harm(rdd: Any) -> Any:
        bad = folder / name
        if bad.exists() and damage == "gone":
            bad.unlink()
        elif bad.exists() and damage == "shrunk":
            bad.write_bytes(b"x")
            os.utime(bad, (0, 0))
        elif bad.exists() and damage == "refused":
            bad.chmod(0)
        return rdd

    steps.collect(steps.ssc.textFileStream(str(folder)).transform(harm))
    put(folder / name, "a line\n" * 100)
    steps.step()
    assert steps.infos[-1].succeeded is False
    assert f"{folder}/{name} cannot be read: " in steps.failure
    assert "add it under another name" in steps.failure
    (folder / name).unlink(missing_ok=True)
    put(folder / "good", "good\n")
    assert steps.step() == ["good"]


def test_the_listing_thread_ends_with_the_context(steps: Steps, folder: Path) -> None:
    def listers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("files of ")]

    steps.collect(steps.ssc.textFileStream(str(folder)))
    steps.step()
    assert listers() == [f"files of {folder}"]
    steps.ssc.stop(stopSparkContext=False)
    assert listers() == []


# -- the receiver --


def test_the_file_receiver_resumes_at_its_saved_offset(
    make_ssc: Callable[..., StreamingContext], folder: Path, collect: Any, wait_for: Callable[..., None]
) -> None:
    log = folder / "app.log"
    expected: list[str] = []
    records: list[str] = []
    for run in range(2):
        ssc = make_ssc()
        lines = [f"{run}-{number}" for number in range(1000)]
        with log.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        expected += lines
        batches = collect(ssc.receiverStream("file", path=str(log), offset_file=str(folder / "offsets")))
        ssc.start()
        wait_for(lambda batches=batches: len(batches.records) >= 1000, "its lines")
        ssc.stop(stopSparkContext=False, stopGraceFully=True)
        records += batches.records
    assert records == expected
