"""RecordBatcher: when single records are stored together."""

from __future__ import annotations

from typing import Any

import pytest

from penstock_socket import record_batcher
from penstock_socket.record_batcher import RecordBatcher

INTERVAL_S = 10.0


class Time:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(record_batcher, "time", time)
    return time


@pytest.fixture
def stored() -> list[list[Any]]:
    return []


@pytest.fixture
def batcher(time: Time, stored: list[list[Any]]) -> RecordBatcher:
    return RecordBatcher(stored.append, INTERVAL_S, lambda: None)


def test_first_record_after_a_pause_is_stored_at_once(
    batcher: RecordBatcher, time: Time, stored: list[list[Any]]
) -> None:
    batcher.add_all("a")
    assert stored == [["a"]]
    batcher.add_all("bc")
    time.now_s += INTERVAL_S
    batcher.add_all("d")
    assert stored == [["a"], ["b", "c", "d"]]


def test_batch_is_due_an_interval_after_the_last_store(
    batcher: RecordBatcher, time: Time, stored: list[list[Any]]
) -> None:
    batcher.add_all("ab")
    assert batcher.store_or_wait_s() == INTERVAL_S
    time.now_s += 4
    assert batcher.store_or_wait_s() == INTERVAL_S - 4
    time.now_s += INTERVAL_S
    assert batcher.store_or_wait_s() == 0
    batcher.store()
    assert stored == [["a"], ["b"]]
    assert batcher.store_or_wait_s() is None


def test_empty_batch_is_not_stored(batcher: RecordBatcher, stored: list[list[Any]]) -> None:
    assert batcher.store_or_wait_s() is None
    batcher.store()
    batcher.add_all([])
    assert stored == []


def test_many_records_are_stored_at_once(batcher: RecordBatcher, stored: list[list[Any]]) -> None:
    batcher.add_all(range(20_002))
    assert [len(records) for records in stored] == [1, 10_000, 10_000]
    batcher.store()
    assert [number for records in stored for number in records] == list(range(20_002))


def test_many_bytes_are_stored_at_once(batcher: RecordBatcher, stored: list[list[Any]]) -> None:
    batcher.add_all("ab")
    batcher.num_bytes += 16 << 20
    assert batcher.store_or_wait_s() is None
    assert stored == [["a"], ["b"]]
    assert batcher.num_bytes == 0


@pytest.mark.parametrize(("rate", "enough"), [(0.001, 1), (0.5, 5), (20, 200), (1e9, 10_000)])
def test_batch_holds_an_interval_of_the_rate_limit(
    time: Time, stored: list[list[Any]], rate: float, enough: int
) -> None:
    RecordBatcher(stored.append, INTERVAL_S, lambda: rate).add_all(range(20_001))
    assert {len(records) for records in stored[1:]} == {enough}


def test_changed_rate_applies_from_the_next_batch(time: Time, stored: list[list[Any]]) -> None:
    rates = [0.5, 0.3, None]
    batcher = RecordBatcher(stored.append, INTERVAL_S, lambda: rates[min(len(stored), 2)])
    batcher.add_all(range(10_004))
    assert [len(records) for records in stored] == [1, 3, 10_000]


def test_failed_store_is_not_retried_with_the_same_records(time: Time) -> None:
    stored: list[list[Any]] = []

    def store(records: list[Any]) -> None:
        stored.append(records)
        raise OSError("full")

    batcher = RecordBatcher(store, INTERVAL_S, lambda: None)
    with pytest.raises(OSError, match="full"):
        batcher.add_all("ab")
    batcher.store()
    assert stored == [["a"]]
