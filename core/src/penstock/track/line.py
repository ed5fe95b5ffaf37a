"""``Line``: the way to the endpoint of one launch.

Owns the connection and an outbox: messages are sent on the outbox's own thread, in their order, so that a receiver
which takes its time to answer holds up no other. Of orders that wait there, the newest of a kind alone is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from attrs import field, frozen

from penstock.errors import WireError
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.wire.client import Client
from penstock.wire.messages import Reply

log = get_logger("receiver_tracker")


@frozen
class Place:
    """Where a receiver runs, and its blocks are. The same address and directory are the same place.

    Attributes:
        host: as Spark names it, for the placing of tasks; empty while Spark does not say.
        address: on which its endpoint listens.
        directory: of the run's blocks there, which endpoints on that host serve as a whole; empty when they are in the
            block log.
    """

    host: str = field(default="", eq=False)
    address: str = ""
    directory: str = ""


class Line:
    """Tell one launch of a receiver something.

    Args:
        stream_id: of its input stream.
        place: where it runs.
        client: to its endpoint.
    """

    def __init__(self, stream_id: int, place: Place, client: Client) -> None:
        self.stream_id, self.place, self.client = stream_id, place, client
        self._outbox: EventLoop[Callable[[], None]] = EventLoop(
            f"ReceiverTracker to {stream_id}", lambda send: send(), self._on_error
        )
        self._outbox.start()
        # Orders that wait in it, by their class, with what is called when they could not be delivered.
        self._orders: dict[type, tuple[object, Callable[[], None]]] = {}
        self._orders_lock = threading.Lock()

    @property
    def location(self) -> str:
        """The address of the endpoint."""
        return self.client.location

    def tell(self, message: object, undelivered: Callable[[], None] = lambda: None, *, at_once: bool = False) -> None:
        """Send a message; returns at once.

        Args:
            message: to send.
            undelivered: called, on the sending thread, when it could not be.
            at_once: overtake what the receiver has not answered yet.
        """
        send = partial(self._send, message, undelivered)
        if at_once:
            EngineThread(f"ReceiverTracker to {self.stream_id}, at once", send).start()
        else:
            self._outbox.post(send)

    def order(self, message: object, undelivered: Callable[[], None]) -> None:
        """Send a message in place of one of its class that waits still, as ``tell``; returns at once."""
        kind = type(message)
        with self._orders_lock:
            waits = kind in self._orders
            self._orders[kind] = message, undelivered
        if not waits:
            self._outbox.post(partial(self._send_order, kind))

    def hang_up(self) -> None:
        """Give the connection up behind what is to be sent; returns at once."""

        def end() -> None:
            self.client.close()
            self._outbox.stop()

        self._outbox.post(end)

    def stop(self) -> None:
        """Give the connection up, whatever is to be sent."""
        self._outbox.stop(1.0)
        self.client.close()

    def _send_order(self, kind: type) -> None:
        with self._orders_lock:
            message, undelivered = self._orders.pop(kind)
        self._send(message, undelivered)

    def _send(self, message: object, undelivered: Callable[[], None]) -> None:
        try:
            self.client.ask(message, Reply)
        except WireError as error:
            name = type(message).__name__
            log.warning("receiver not reached", stream_id=self.stream_id, message=name, error=str(error))
            undelivered()

    def _on_error(self, error: BaseException) -> None:
        log.error("receiver not told", stream_id=self.stream_id, exc_info=error)
