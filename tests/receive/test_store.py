"""The path of a record: stored, reported, accepted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from tests.helpers import advance_until, run_in_background

from penstock.errors import StoreError
from penstock.receive.messages import AddBlocks
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.receive.conftest import FakeDriver, FakeStore, Noting

Supervise = Callable[..., ReceiverSupervisor]
Records = Callable[[], list[Any]]


@pytest.fixture
def started(supervise: Supervise, receiver: Noting) -> Callable[..., Noting]:
    """Starts the receiver."""

    def start(**options: Any) -> Noting:
        supervise(receiver, **options).start()
        return receiver

    return start


Started = Callable[..., "Noting"]


def test_block_is_reported_with_its_arrival_and_the_size_of_the_buffer(
    started: Started, clock: ManualClock, driver: FakeDriver
) -> None:
    receiver, began_ms = started(), clock.now_ms()
    receiver.store("first")
    clock.await_waiters()
    clock.advance(150)
    receiver.store_all(["second", "third"])
    receiver.store_arrow(pa.table({"value": ["fourth"]}))
    clock.advance(50)
    driver.log.await_count(AddBlocks, 3)
    assert sorted(block.arrival_ms or 0 for block in driver.blocks) == [began_ms, began_ms + 150, began_ms + 150]
    size = sys.getsizeof("first")
    # The block that is reported is still in the buffer until it is accepted.
    assert [message.buffered_bytes for message in driver.log.of(AddBlocks)] == [size, size, size]


def test_a_call_is_one_block_with_its_metadata(started: Started, driver: FakeDriver) -> None:
    receiver = started()
    receiver.store_all(["a", "b"], {"offset": 5, "topic": "t"})
    receiver.store_arrow(pa.table({"a": [1, 2, 3]}), {"offset": 8})
    receiver.store_all(["c"])
    assert [(block.num_records, block.metadata) for block in driver.blocks] == [
        (2, {"offset": 5, "topic": "t"}),
        (3, {"offset": 8}),
        (1, None),
    ]


def test_metadata_is_with_the_last_block_of_a_call(started: Started, driver: FakeDriver) -> None:
    receiver = started(conf={"spark.penstock.receiver.maxBufferedRecords": "2"})
    receiver.store_all([1, 2, 3, 4, 5], {"offset": 5})
    receiver.store_all(iter([6, 7, 8, 9]), {"offset": 9})
    assert [(block.num_records, block.metadata) for block in driver.blocks] == [
        (2, None),
        (2, None),
        (1, {"offset": 5}),
        (2, None),
        (2, {"offset": 9}),
    ]


def test_each_block_of_a_batch_has_the_metadata_of_its_rows(
    started: Started, driver: FakeDriver, clock: ManualClock
) -> None:
    driver.rate = 100.0
    receiver = started()
    rows = pa.table({"value": list(range(25))})
    storing = run_in_background(lambda: receiver.store_arrow(rows, lambda count: {"offset": count}))
    advance_until(clock, storing.done, "the batch is stored", step_ms=10)
    stored = 0
    for block in driver.blocks:
        stored += block.num_records
        assert block.metadata == {"offset": stored}
    assert stored == 25
    assert len(driver.blocks) > 1


def test_empty_store_all_makes_no_block(started: Started, driver: FakeDriver) -> None:
    receiver = started()
    receiver.store_all([])
    receiver.store_all(iter(()))
    receiver.store_arrow(pa.table({"a": pa.array([], pa.string())}))
    assert driver.blocks == []


def test_iterable_is_read_in_parts_in_order(started: Started, driver: FakeDriver, records: Records) -> None:
    receiver, taken = started(), 0

    def source() -> Iterator[int]:
        nonlocal taken
        while taken < 250_000:
            taken += 1
            yield taken

    seen: list[int] = []
    driver.on_message = lambda message: seen.append(taken) if isinstance(message, AddBlocks) else None
    receiver.store_all(source())
    assert records() == list(range(1, 250_001))
    assert [block.num_records for block in driver.blocks] == [200_000, 50_000]
    assert seen == [200_000, 250_000]


def test_error_of_the_iterable_is_raised(started: Started, records: Records) -> None:
    receiver = started()

    def source() -> Iterator[int]:
        yield 1
        raise KeyError("the source's own")

    with pytest.raises(KeyError, match="the source's own"):
        receiver.store_all(source())
    receiver.store_all([2])
    assert records() == [2]


def test_complete_blocks_before_an_error_of_the_iterable_stay_stored(started: Started, records: Records) -> None:
    receiver = started(conf={"spark.penstock.receiver.maxBufferedRecords": "10"})

    def source() -> Iterator[int]:
        yield from range(25)
        raise KeyError("the source's own")

    with pytest.raises(KeyError, match="the source's own"):
        receiver.store_all(source())
    assert records() == list(range(20))


@pytest.mark.parametrize("value", ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc"), {"a": 1}, {}, ""], ids=repr)
def test_store_all_of_text_bytes_or_a_mapping_is_refused(started: Started, driver: FakeDriver, value: Any) -> None:
    receiver = started()
    with pytest.raises(TypeError, match=rf"collection of records, not {type(value).__name__}\. .*store_all\(\["):
        receiver.store_all(value)
    assert driver.blocks == []


def test_one_column_is_stored_as_its_values_and_several_as_rows(started: Started, records: Records) -> None:
    receiver = started()
    receiver.store_arrow(pa.record_batch({"a": ["x", "y"]}))
    receiver.store_arrow(pa.table({"a": ["x"], "b": [1]}).slice(0, 1))
    assert records() == ["x", "y", Row(a="x", b=1)]


def test_store_arrow_of_something_else_is_refused(started: Started, driver: FakeDriver) -> None:
    receiver = started()
    with pytest.raises(TypeError, match="list"):
        receiver.store_arrow([1, 2])
    with pytest.raises(ValueError, match="without columns"):
        receiver.store_arrow(pa.table({}))
    assert driver.blocks == []


class ImpatientClock(ManualClock):
    """Records the durations of its thread's waits, which end at once; the others never do."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.current_thread()
        self.waits: list[float] = []

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        if threading.current_thread() is self._thread:
            self.waits.append(duration_ms)
        else:
            super().wait_for(duration_ms, cancelled)


def test_delays_between_retries_grow(started: Started, store: FakeStore) -> None:
    clock = ImpatientClock()
    receiver = started(other_clock=clock)
    store.failures = 5
    receiver.store_all(["a"])
    assert len(clock.waits) == 5
    for wait, nominal in zip(clock.waits, (50, 100, 200, 400, 800), strict=True):
        assert nominal / 2 <= wait <= nominal


def test_store_hook_without_a_stored_block_is_an_error(started: Started, store: FakeStore) -> None:
    receiver = started(conf={"spark.penstock.receiver.storeRetries": "0"})
    store.answer = lambda _block, _stored: None
    with pytest.raises(StoreError, match=r"returned None for block input-3-7-0; a plugin .* must return a StoredBlock"):
        receiver.store_all(["a"])
