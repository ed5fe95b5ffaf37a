"""What ``store_all`` takes at once is bounded in records and in bytes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock.blocks import arrow_form
from penstock.blocks.arrow_form import sized_tables
from penstock.receive.messages import AddBlocks
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.receive.conftest import FakeDriver, Noting

MB = 1 << 20


class Source:
    """Makes records; knows how many were taken."""

    def __init__(self, make: Callable[[int], Any], count: int) -> None:
        self.make = make
        self.count = count
        self.taken = 0

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.count):
            self.taken += 1
            yield self.make(number)


def sizes(source: Any, max_records: int = 10**6, max_bytes: int = 64 * MB) -> list[int]:
    return [count for _table, count, _last in sized_tables(source, lambda: max_records, max_bytes)]


@pytest.mark.parametrize(
    "make",
    [lambda n: b"x" * MB, lambda n: "x" * MB, lambda n: {"number": n, "body": [b"x" * MB]}],
    ids=["bytes", "text", "nested"],
)
def test_large_records_are_taken_a_few_at_a_time(make: Callable[[int], Any]) -> None:
    source = Source(make, 20)
    taken: list[int] = []
    for table, count, _last in sized_tables(source, lambda: 10**6, 4 * MB):
        assert table.nbytes < 5 * MB
        assert count <= 4
        taken.append(source.taken)
    assert source.taken == 20
    assert max(later - earlier for earlier, later in zip([0, *taken], taken, strict=False)) <= 4


def test_record_above_the_bound_is_a_table_of_its_own() -> None:
    assert sizes([b"x" * 3 * MB] * 3, max_bytes=MB) == [1, 1, 1]


def test_small_records_fill_a_table_to_the_limit() -> None:
    assert sizes(range(250_000), max_records=100_000) == [100_000, 100_000, 50_000]


def test_suddenly_large_records_end_a_table_early() -> None:
    source = Source(lambda n: "x" * (100 if n < 50_000 else 100_000), 60_000)
    tables = [(table.nbytes, count) for table, count, _last in sized_tables(source, lambda: 10**6, 4 * MB)]
    assert sum(count for _size, count in tables) == 60_000
    # A look at every 256th.
    assert max(size for size, _count in tables) < 4 * MB + 256 * 100_100


RECORD = st.one_of(
    st.text(max_size=5), st.binary(max_size=50), st.integers(), st.floats(allow_nan=False), st.none(), st.booleans()
)


@given(st.lists(RECORD, max_size=60), st.integers(1, 40), st.integers(1, 300))
@settings(max_examples=examples(80), derandomize=True, deadline=None)
def test_decoded_records_equal_the_encoded_ones(records: list[Any], max_records: int, max_bytes: int) -> None:
    out: list[Any] = []
    for table, count, _last in sized_tables(iter(records), lambda: max_records, max_bytes):
        part = list(arrow_form.records(table.to_batches()))
        assert 1 <= len(part) == count <= max_records
        out += part
    assert [(type(decoded), decoded) for decoded in out] == [(type(record), record) for record in records]


def test_records_waiting_for_the_rate_limit_are_not_read_ahead(
    supervise: Callable[..., ReceiverSupervisor],
    receiver: Noting,
    driver: FakeDriver,
    background: Callable[[Callable[[], Any]], Future[Any]],
    drive: Callable[[Future[Any]], Any],
) -> None:
    # A burst of a block interval: 50 records.
    supervisor = supervise(
        receiver, {"spark.streaming.receiver.maxRate": "500", "spark.streaming.blockInterval": "100ms"}
    )
    supervisor.start()
    source = Source(lambda n: n, 200)
    taken: list[int] = []
    driver.on_message = lambda message: taken.append(source.taken) if isinstance(message, AddBlocks) else None
    drive(background(lambda: receiver.store_all(source)))
    assert taken == [50, 100, 150, 200]


def test_rate_that_falls_during_store_all_is_respected(
    supervise: Callable[..., ReceiverSupervisor],
    receiver: Noting,
    records: Callable[[], list[Any]],
    driver: FakeDriver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixed = [1, "two", 3.0, None] * 5
    supervisor = supervise(receiver)
    supervisor.start()
    granted = iter([7, 13])
    monkeypatch.setattr(RateLimiter, "acquire", lambda _limiter, _wanted: next(granted))
    receiver.store_all(mixed)
    assert [block.num_records for block in driver.blocks] == [7, 13]
    assert records() == mixed


def test_falling_rate_reads_each_record_once(
    supervise: Callable[..., ReceiverSupervisor], receiver: Noting, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    read, times = arrow_form.records, itertools.count()

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        next(times)
        return read(batches)

    monkeypatch.setattr(arrow_form, "records", counted)
    monkeypatch.setattr(RateLimiter, "acquire", lambda _limiter, _wanted: 1)
    receiver.store_all(range(20))
    assert [block.num_records for block in driver.blocks] == [1] * 20
    assert next(times) == 1


def test_store_and_store_all_share_the_rate_limit() -> None:
    # What is measured is not more than a little beside what Python says.
    (table, _count, _last), *_ = sized_tables(["x" * 1000] * 100, lambda: 1000, MB)
    assert table.nbytes == pytest.approx(100 * sys.getsizeof("x" * 1000), rel=0.1)


@pytest.mark.parametrize(
    "records", [[1, 2, 3, 4, 5], iter([1, 2, 3, 4, 5]), [1, 2, 3, 4], iter([1, 2, 3, 4]), [], iter(())]
)
def test_last_table_is_marked(records: Iterable[int]) -> None:
    tables = list(sized_tables(records, lambda: 2, MB, marks_last=True))
    assert [last for _table, _count, last in tables] == [False] * (len(tables) - 1) + [True] * bool(tables)
    values = [value for table, _count, _last in tables for value in arrow_form.records(table.to_batches())]
    assert values == list(range(1, len(values) + 1))
    assert len(values) in {0, 4, 5}
