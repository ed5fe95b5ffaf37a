"""``FileSource`` without Spark: its batches, messages and errors."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigurationError
from penstock_file import FileSource, TextFileOptions
from penstock_file.directory_pattern import DirectoryPattern
from penstock_file.errors import FileReadError
from penstock_file.readers import LineReader


class Rdd:
    """Keeps what it was made of."""

    def __init__(self, partitions: list[Any]) -> None:
        self.partitions = partitions

    def mapPartitionsWithIndex(self, _function: Any) -> Rdd:
        return self


class Context:
    """As much of a SparkContext as a source needs."""

    defaultParallelism = 2
    fails = False

    def accumulator(self, value: Any, _param: Any) -> Any:
        return value

    def emptyRDD(self) -> Rdd:
        return Rdd([])

    def parallelize(self, partitions: list[Any], _count: int) -> Rdd:
        if self.fails:
            raise RuntimeError("Spark is not there")
        return Rdd(partitions)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., tuple[FileSource, Context]]]:
    sources: list[FileSource] = []

    def make(accept: Callable[[str], bool] | None = None, **options: Any) -> tuple[FileSource, Context]:
        source, context = (
            FileSource(TextFileOptions(directory=str(tmp_path), **options), LineReader(), accept),
            Context(),
        )
        source.open(context, 60_000)  # type: ignore[arg-type]
        source.start()
        sources.append(source)
        return source, context

    yield make
    for source in sources:
        source.stop()


Make = Callable[..., tuple[FileSource, Context]]


def names(batch: Any) -> list[str]:
    return [Path(name).name for name in batch.metadata.get("files", [])]


def test_batch_has_records_and_description(make: Make, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    source, _ = make()
    assert source.compute(1000).metadata == {}
    (tmp_path / "new").write_text("x\ny\n")
    batch = source.compute(2000)
    assert names(batch) == ["new"]
    assert batch.num_records == 0
    assert batch.count is not None
    # Tasks report counts through an accumulator, which needs Spark.
    source._record_counts.merge({2000: {0: 2}})
    assert batch.count() == 2
    source.clean_up(2001)
    # A batch that is not counted any more takes nothing. Tasks report through an accumulator, which needs Spark.
    source._record_counts.merge({2000: {1: 5}})
    assert batch.count() == 0


def test_recovered_batch_without_files_has_the_schema(make: Make, tmp_path: Path) -> None:
    earlier, _ = make()
    empty = earlier.compute(1000)
    (tmp_path / "new").write_text("x\n")
    earlier.compute(2000)
    source, _ = make()
    source.restore(json.loads(json.dumps(earlier.position())))
    again = source.compute_again(1000)
    assert again.arrow is not None
    assert empty.arrow is not None
    assert (again.arrow.references, again.arrow.schema()) == (None, empty.arrow.schema())
    assert names(source.compute_again(2000)) == ["new"]


def test_late_batches_have_the_files_of_their_intervals_from_one_listing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _context = make()
    listings = 0
    listing = DirectoryPattern.listing

    def counted(directory: DirectoryPattern) -> Any:
        nonlocal listings
        listings += 1
        return listing(directory)

    monkeypatch.setattr(DirectoryPattern, "listing", counted)
    for name, time_s in (("third", 25), ("first", 5), ("second", 15), ("after", 40)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (time_s, time_s))
    assert [names(source.compute_late(time_s * 1000)) for time_s in (10, 15, 20, 30)] == [
        ["first"],
        ["second"],
        [],
        ["third"],
    ]
    assert listings == 1
    assert names(source.compute(31_000)) == ["after"]


def test_failing_spark_loses_no_file(make: Make, tmp_path: Path) -> None:
    source, context = make(max_files_per_batch=1)
    for name in "ab":
        (tmp_path / name).write_text("x")
    context.fails = True
    with pytest.raises(RuntimeError, match="not there"):
        source.compute(1000)
    context.fails = False
    assert [names(source.compute(time_ms)) for time_ms in (1000, 2000, 3000)] == [["a"], ["b"], []]


def test_filter_that_fails_fails_the_batch_and_loses_nothing(make: Make, tmp_path: Path) -> None:
    fails = [True]
    source, _ = make(lambda path: 1 // 0 > 0 if fails.pop() else True)
    (tmp_path / "a").write_text("x")
    with pytest.raises(
        FileReadError, match=rf"the filter of the file stream failed on {tmp_path}/a: ZeroDivisionError"
    ):
        source.compute(1000)
    fails += [False, False]
    assert names(source.compute(2000)) == ["a"]


def test_directory_that_cannot_be_listed_at_the_start_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_place: DirectoryPattern) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(DirectoryPattern, "listing", refuse)
    with pytest.raises(ConfigurationError, match=r"cannot be listed: .*Permission denied.*new_files_only=False"):
        make()
    make(new_files_only=False)


def test_looking_at_a_recent_file_again_is_not_a_slow_listing(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, again = threading.Event(), DirectoryPattern.again
    monkeypatch.setattr(DirectoryPattern, "again", lambda place, paths: (go_on.wait(60), again(place, paths))[1])
    source, _ = make()
    # The timeout changes between batches, which no setting does.
    source._listing_timeout_s = 0.5
    (tmp_path / "a").write_text("x")
    assert names(source.compute(1000)) == []
    go_on.set()
    source._listing_timeout_s = 30.0
    assert names(source.compute(2000)) == ["a"]
    assert not caplog.records


def test_stopping_is_prompt_while_a_listing_hangs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    source, _ = make(new_files_only=False)
    monkeypatch.setattr(DirectoryPattern, "listing", lambda _place: go_on.wait(60) and [])
    batch = threading.Thread(target=source.compute, args=(1000,))
    batch.start()
    threading.Timer(0.2, source.stop).start()
    batch.join(10)
    assert not batch.is_alive()
    go_on.set()
