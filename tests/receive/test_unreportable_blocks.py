"""A block that can never be reported is an error at once, and leaves no file."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import StoreError
from penstock.receive.supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.receive.conftest import FakeStore, Noting


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
        error = storing.exception(timeout=1)  # the clock stands still: there is no waiting for another try
    except TimeoutError:
        with pytest.raises(StoreError):
            drive(storing)
        pytest.fail("it was tried again")
    assert isinstance(error, (StoreError, TypeError))
    assert "JSON" in str(error)
    assert store.kept == {}
