"""``ReceiverConnection``: sends the driver's messages to one launch of a receiver.

Owns the client and a queue: messages are sent one after the other on the queue's own thread, so that a receiver that is
slow to answer delays no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from penstock.errors import WireError
from penstock.receive.messages import ReleaseReceiver, UpdateRateLimit
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.track.receiver_tracking_info import BlockLocation
from penstock.wire.client import Client
from penstock.wire.json_codec import Reply

log = get_logger("receiver_connection")

# Minimum time between two log lines about one receiver: a stop is sent again every half second.
_THROTTLE_S = 30


class ReceiverConnection:
    """Send messages to one launch. ``undelivered`` is called on a sending thread with lost messages."""

    def __init__(
        self,
        stream_id: int,
        location: BlockLocation,
        client: Client,
        source: str,
        undelivered: Callable[[ReceiverConnection, object], None],
    ) -> None:
        self.stream_id = stream_id
        self.location = location
        self.client = client
        #: The address from which tasks fetch blocks; see ``source_of``.
        self.source = source
        #: Whether the launch serves blocks: it has not been released.
        self.serves = True
        self._undelivered = undelivered
        self._queue: EventLoop[Callable[[], None]] = EventLoop(
            f"receiver {stream_id} messages", lambda send: send(), self._on_error
        )
        self._queue.start()
        # The newest rate limit while it waits in the queue.
        self._rate_limit: UpdateRateLimit | None = None
        self._rate_lock = threading.Lock()

    def send(self, message: object, *, urgent: bool = False) -> None:
        """Send a message; returns at once.

        An urgent one does not wait for answers to earlier ones. A rate limit replaces one that still waits.
        """
        if urgent:
            EngineThread(f"receiver {self.stream_id} urgent message", partial(self._send, message)).start()
        elif isinstance(message, UpdateRateLimit):
            with self._rate_lock:
                waits, self._rate_limit = self._rate_limit is not None, message
            if not waits:
                self._queue.post(self._send_rate_limit)
        else:
            self._queue.post(partial(self._send, message))

    def close_after_flush(self) -> None:
        """Close the connection once all messages are sent; returns at once."""

        def close() -> None:
            self.client.close()
            self._queue.stop()

        self._queue.post(close)

    def close(self) -> None:
        """Close the connection; messages in the queue are dropped."""
        self._queue.stop(1.0)
        self.client.close()

    def _send_rate_limit(self) -> None:
        with self._rate_lock:
            message, self._rate_limit = self._rate_limit, None
        self._send(message)

    def _send(self, message: object) -> None:
        try:
            self.client.ask(message, Reply)
        except WireError as error:
            # A task that is ending by itself needs no release.
            write = log.info if isinstance(message, ReleaseReceiver) else log.warning
            fields = {"stream_id": self.stream_id, "message": type(message).__name__, "reason": str(error)}
            write("message not delivered to receiver", **fields, throttle_s=_THROTTLE_S)
            self._undelivered(self, message)

    def _on_error(self, error: BaseException) -> None:
        log.error("message to receiver failed", stream_id=self.stream_id, exc_info=error)


class Connections:
    """The connections to all launches that have registered and not ended. Changed on the tracker's loop alone."""

    def __init__(self) -> None:
        self._by_launch: dict[tuple[int, int], ReceiverConnection] = {}
        #: Connections to the newest serving launch per location. Replaced after a change, read on any thread.
        self.by_location: Mapping[BlockLocation, ReceiverConnection] = {}

    def get(self, stream_id: int, epoch: int) -> ReceiverConnection | None:
        """The connection to a launch, if there is one. Any thread."""
        return self._by_launch.get((stream_id, epoch))

    def serving(self) -> list[ReceiverConnection]:
        """The connections to the launches that serve blocks, in the order of their registration. Any thread."""
        return [connection for connection in list(self._by_launch.values()) if connection.serves]

    def set_serving(self, stream_id: int, epoch: int, serves: bool) -> None:
        """Note whether a launch serves blocks."""
        if (connection := self.get(stream_id, epoch)) is not None:
            connection.serves = serves
            self._index()

    def add(self, epoch: int, connection: ReceiverConnection) -> None:
        """Use a connection to a launch from now on, in place of an earlier one."""
        self.end(connection.stream_id, epoch)
        self._by_launch[connection.stream_id, epoch] = connection
        self._index()

    def end(self, stream_id: int, epoch: int) -> None:
        """Close the connection of a launch that has ended or registers again."""
        connection = self._by_launch.pop((stream_id, epoch), None)
        if connection is not None:
            self._index()
            connection.close_after_flush()

    def _index(self) -> None:
        self.by_location = {connection.location: connection for connection in self.serving()}

    def close(self) -> None:
        """Close all connections at once."""
        for connection in self._by_launch.values():
            connection.close()
