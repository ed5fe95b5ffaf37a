"""What limits the receiver of a query: unprocessed blocks, a full disk, its rate."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from plugins.structured.tests.readers import Make, started, values
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.helpers import run_in_background, wait_for

from penstock.spi import write_block_file
from penstock_structured import block_directory
from penstock_structured.block_directory import write_rate


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


SLOW_START = {"spark.streaming.backpressure.enabled": "true"}


def test_the_slow_start_doubles_the_rate_with_each_batch_until_steer_sets_one(make: Make, tmp_path: Path) -> None:
    reader = make(conf=SLOW_START)
    offset, receiver = started(reader)
    assert receiver.rate_limit == 1000.0
    for rate in (1000.0, 2000.0, 4000.0):
        assert reader.reportLatestOffset()["rate"] == rate  # type: ignore[index]
        receiver.store_all(["a"])
        offset = reader.latestOffset(offset, ReadAllAvailable())
        # Its batch has ended; a trigger without data is none.
        for _ in range(2):
            assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    write_rate(tmp_path / "query", 300.0)
    wait_for(lambda: receiver.rate_limit == 300.0, "the new rate")
    receiver.store_all(["a"])
    offset = reader.latestOffset(offset, ReadAllAvailable())
    reader.latestOffset(offset, ReadAllAvailable())
    assert reader.reportLatestOffset()["rate"] == 300.0  # type: ignore[index]


def test_a_slow_start_without_steer_ends_with_a_warning(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    reader = make(conf=SLOW_START)
    offset, receiver = started(reader)
    for _ in range(10):
        receiver.store_all(["a"])
        offset = reader.latestOffset(offset, ReadAllAvailable())
    assert receiver.rate_limit is not None
    reader.latestOffset(offset, ReadAllAvailable())
    wait_for(lambda: receiver.rate_limit is None, "the end of the limit")
    assert caplog.text.count("slow start ended, no rate limit") == 1


@pytest.mark.parametrize(
    ("conf", "options", "rate"),
    [
        (SLOW_START, {"initialRate": 7.0}, 7.0),
        ({**SLOW_START, "spark.streaming.backpressure.initialRate": "9"}, {}, 9.0),
        ({"spark.streaming.backpressure.enabled": "false"}, {}, None),
    ],
)
def test_a_configured_first_rate_stays_until_steer_sets_one(
    make: Make, conf: dict[str, str], options: dict[str, float], rate: float | None
) -> None:
    reader = make(conf=conf, **options)
    offset, receiver = started(reader)
    receiver.store_all(["a"])
    offset = reader.latestOffset(offset, ReadAllAvailable())
    reader.latestOffset(offset, ReadAllAvailable())
    assert receiver.rate_limit == rate
