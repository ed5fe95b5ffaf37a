"""``Connections`` and ``ReceiverConnection``: which launch serves a location, and how a connection ends."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from tests.helpers import Gate, await_blocked, run_in_background, wait_for

from penstock.errors import WireError
from penstock.receive.messages import ReleaseReceiver, UpdateRateLimit
from penstock.runtime.event_loop import EventLoop
from penstock.track.receiver_connection import Connections, ReceiverConnection
from penstock.track.receiver_tracking_info import BlockLocation

HERE, THERE = BlockLocation("host-a", "address-a", "/blocks"), BlockLocation("host-b", "address-b", "/blocks")


class FakeClient:
    """Notes what is asked; a message may wait or fail."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.closed = threading.Event()
        self.on_ask: Any = lambda _message: None

    def ask(self, message: object, _kind: object) -> None:
        self.on_ask(message)
        self.asked.append(message)

    def close(self) -> None:
        self.closed.set()


def connection(
    client: FakeClient, location: BlockLocation = HERE, stream_id: int = 1, lost: list[object] | None = None
) -> ReceiverConnection:
    def undelivered(_connection: ReceiverConnection, message: object) -> None:
        if lost is not None:
            lost.append(message)

    return ReceiverConnection(stream_id, location, cast(Any, client), f"source-{stream_id}", undelivered)


def await_end_of_thread(name: str) -> None:
    wait_for(lambda: name not in [thread.name for thread in threading.enumerate()], f"the thread {name} ends")


def test_newest_serving_launch_of_a_location_serves_its_blocks() -> None:
    connections = Connections()
    first, second, third = (connection(FakeClient(), place, n) for n, place in enumerate((HERE, HERE, THERE)))
    for made in (first, second, third):
        connections.add(1, made)
    assert connections.by_location == {HERE: second, THERE: third}
    connections.set_serving(1, 1, False)
    assert connections.serving() == [first, third]
    assert connections.by_location == {HERE: first, THERE: third}
    # The launch has ended.
    connections.set_serving(1, 2, True)
    connections.set_serving(1, 1, True)
    assert connections.by_location[HERE] is second
    connections.end(1, 1)
    assert connections.by_location == {HERE: first, THERE: third}
    connections.end(1, 1)
    connections.close()


def test_launch_that_registers_again_has_one_connection() -> None:
    connections, clients = Connections(), [FakeClient(), FakeClient()]
    made = [connection(client) for client in clients]
    for each in made:
        connections.add(1, each)
    assert connections.get(1, 1) is made[1]
    assert clients[0].closed.wait(10)
    assert not clients[1].closed.is_set()
    connections.close()
    assert clients[1].closed.is_set()


def test_connection_of_an_ended_launch_is_closed_after_its_messages() -> None:
    client, gate, connections = FakeClient(), Gate(), Connections()
    client.on_ask = gate
    ending = connection(client, stream_id=7)
    connections.add(1, ending)
    for message in ("first", "second"):
        ending.send(message)
    assert gate.reached.wait(10)
    connections.end(7, 1)
    assert not client.closed.is_set()
    gate.open()
    assert client.closed.wait(10)
    assert client.asked == ["first", "second"]
    wait_for(
        lambda: not any("receiver 7 messages" in thread.name for thread in threading.enumerate()), "its thread ends"
    )


def test_closing_drops_the_messages_that_wait() -> None:
    client, gate = FakeClient(), Gate()
    client.on_ask = gate
    closing = connection(client, stream_id=8)
    for message in ("first", "second"):
        closing.send(message)
    assert gate.reached.wait(10)
    closed = run_in_background(closing.close)
    # What waits is dropped before the message that is being sent has ended.
    await_blocked(EventLoop.stop, inside=True)
    gate.open()
    closed.result(timeout=10)
    assert client.closed.is_set()
    wait_for(
        lambda: not any("receiver 8 messages" in thread.name for thread in threading.enumerate()), "its thread ends"
    )
    assert client.asked == ["first"]


@pytest.mark.parametrize("message", [ReleaseReceiver(), UpdateRateLimit(1.0, 1), "another"])
def test_message_that_is_not_delivered_is_given_back(message: object) -> None:
    client, lost = FakeClient(), list[object]()
    done = threading.Event()

    def fail(_message: object) -> None:
        raise WireError("the process is gone")

    client.on_ask = fail
    made = connection(client, lost=lost)
    made.send(message)
    # Nothing public reports that the queue is empty.
    made._queue.post(done.set)
    assert done.wait(10)
    assert lost == [message]
    made.close()
