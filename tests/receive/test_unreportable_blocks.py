"""A block that cannot be reported is an error without retries, and its file is deleted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from penstock.errors import StoreError
from penstock.receive.messages import AddBlocks
from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.receive.conftest import FakeDriver, FakeStore, Noting


def test_metadata_that_is_not_json_is_refused_without_trying_again(
    supervise: Callable[..., ReceiverSupervisor],
    receiver: Noting,
    store: FakeStore,
    background: Callable[[Callable[[], Any]], Future[Any]],
    drive: Callable[[Future[Any]], Any],
) -> None:
    supervise(receiver).start()
    storing = background(lambda: receiver.store_all(["a"], {"at": object()}))
    try:
        error = storing.exception(timeout=30)  # the clock stands still: it did not wait for a retry
    except TimeoutError:
        with pytest.raises(StoreError):
            drive(storing)
        pytest.fail("it was tried again")
    assert isinstance(error, (StoreError, TypeError))
    assert "JSON" in str(error)
    assert store.kept == {}


@pytest.mark.parametrize("wrong", [{"num_records": "x"}, {"num_bytes": None}, {"path": 5}, {"stream_id": 4}], ids=str)
def test_invalid_stored_block_of_a_plugin_fails_alone(
    supervise: Callable[..., ReceiverSupervisor],
    receiver: Noting,
    store: FakeStore,
    driver: FakeDriver,
    gate: Gate,
    background: Callable[[Callable[[], Any]], Future[Any]],
    wrong: dict[str, Any],
) -> None:
    supervisor = supervise(receiver, {"spark.penstock.receiver.storeRetries": "0"})

    store.answer = lambda block, stored: evolve(stored, **wrong) if list(block.records()) == ["bad"] else stored
    supervisor.start()
    driver.on_message = lambda message: gate() if isinstance(message, AddBlocks) else None
    storing = [background(lambda: receiver.store_all(["first"]))]
    assert gate.reached.wait(10)
    storing.append(background(lambda: receiver.store_all(["good"])))
    with pytest.raises(StoreError, match=f"for block input-3-7-.*{next(iter(wrong.values()))}"):
        background(lambda: receiver.store_all(["bad"])).result(timeout=10)
    gate.open()
    for future in storing:
        future.result(timeout=10)
    assert len(store.kept) == 2
