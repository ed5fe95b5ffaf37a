"""When records are stored together."""

from __future__ import annotations

from typing import Any

import pytest

from penstock_socket import chunks as chunks_module
from penstock_socket.chunks import Chunks

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
    monkeypatch.setattr(chunks_module, "time", time)
    return time


@pytest.fixture
def stored() -> list[list[Any]]:
    return []


@pytest.fixture
def chunks(time: Time, stored: list[list[Any]]) -> Chunks:
    return Chunks(stored.append, INTERVAL_S, lambda: None)


def test_the_first_record_after_a_pause_does_not_wait(chunks: Chunks, time: Time, stored: list[list[Any]]) -> None:
    chunks.take_all("a")
    assert stored == [["a"]]
    chunks.take_all("bc")
    time.now_s += INTERVAL_S
    chunks.take_all("d")
    assert stored == [["a"], ["b", "c", "d"]]


def test_what_waits_is_stored_an_interval_after_the_last_store(
    chunks: Chunks, time: Time, stored: list[list[Any]]
) -> None:
    chunks.take_all("ab")
    assert chunks.ready_to_wait() == INTERVAL_S
    time.now_s += 4
    assert chunks.ready_to_wait() == INTERVAL_S - 4
    time.now_s += INTERVAL_S
    assert chunks.ready_to_wait() == 0
    chunks.store()
    assert stored == [["a"], ["b"]]
    assert chunks.ready_to_wait() is None


def test_nothing_is_no_chunk(chunks: Chunks, stored: list[list[Any]]) -> None:
    assert chunks.ready_to_wait() is None
    chunks.store()
    chunks.take_all([])
    assert stored == []


def test_many_records_do_not_wait(chunks: Chunks, stored: list[list[Any]]) -> None:
    chunks.take_all(range(20_002))
    assert [len(records) for records in stored] == [1, 10_000, 10_000]
    chunks.store()
    assert [number for records in stored for number in records] == list(range(20_002))


def test_many_bytes_do_not_wait(chunks: Chunks, stored: list[list[Any]]) -> None:
    chunks.take_all("ab")
    chunks.num_bytes += 16 << 20
    assert chunks.ready_to_wait() is None
    assert stored == [["a"], ["b"]]
    assert chunks.num_bytes == 0


@pytest.mark.parametrize(("rate", "enough"), [(0.001, 1), (0.5, 5), (20, 200), (1e9, 10_000)])
def test_a_rate_limit_makes_chunks_of_a_burst(time: Time, stored: list[list[Any]], rate: float, enough: int) -> None:
    Chunks(stored.append, INTERVAL_S, lambda: rate).take_all(range(20_001))
    assert {len(records) for records in stored[1:]} == {enough}


def test_a_rate_that_changes_counts_from_the_next_chunk(time: Time, stored: list[list[Any]]) -> None:
    rates = [0.5, 0.3, None]
    chunks = Chunks(stored.append, INTERVAL_S, lambda: rates[min(len(stored), 2)])
    chunks.take_all(range(10_004))
    assert [len(records) for records in stored] == [1, 3, 10_000]


def test_a_store_that_fails_is_not_tried_again_with_the_same_records(time: Time) -> None:
    stored: list[list[Any]] = []

    def store(records: list[Any]) -> None:
        stored.append(records)
        raise OSError("full")

    chunks = Chunks(store, INTERVAL_S, lambda: None)
    with pytest.raises(OSError, match="full"):
        chunks.take_all("ab")
    chunks.store()
    assert stored == [["a"]]
