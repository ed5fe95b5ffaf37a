"""The ports and addresses by which driver and receivers reach each other."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from penstock.errors import WireError
from penstock.receive.messages import StopReceiver
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


def test_driver_takes_a_further_port_of_its_range_when_the_first_is_in_use(
    make_tracker: Callable[..., Tracked],
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        first = taken.getsockname()[1]
        tracked = make_tracker(conf={"spark.penstock.driver.port": str(first), "spark.port.maxRetries": "100"})
        tracked.tracker.start()
        tracked.registered()
        port = urlsplit(tracked.launch().task.driver.location).port
    assert port is not None
    assert first < port <= first + 100


def test_receiver_that_the_driver_does_not_reach_is_an_error_with_the_key_of_its_port(
    make_tracker: Callable[..., Tracked],
) -> None:
    tracked = make_tracker()
    tracked.tracker.start()
    tracked.registered().close()
    with pytest.raises(WireError, match=r"to StopReceiver.*If that host runs.*spark\.penstock\.receiver\.port fixes"):
        tracked.connection().client.ask(StopReceiver("enough"), Reply)
