"""``Line``: the way to the endpoint of one launch.

Owns the connection and an outbox: messages are sent on the outbox's own thread, in their order, so that a receiver
which takes its time to answer holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from penstock.errors import WireError
from penstock.event_loop import EventLoop
from penstock.log import get_logger
from penstock.threads import EngineThread
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

        def send() -> None:
            try:
                self.client.ask(message, Reply)
            except WireError as error:
                name = type(message).__name__
                log.warning("receiver not reached", stream_id=self.stream_id, message=name, error=str(error))
                undelivered()

        if at_once:
            EngineThread(f"ReceiverTracker to {self.stream_id}, at once", send).start()
        else:
            self._outbox.post(send)

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

    def _on_error(self, error: BaseException) -> None:
        log.error("receiver not told", stream_id=self.stream_id, exc_info=error)
