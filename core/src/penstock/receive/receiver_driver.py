"""What a receiver's supervisor needs from outside (``ReceiverDriver``), and the tracker as such (``TrackerClient``)."""

from __future__ import annotations

from typing import Protocol, TypeVar

from attrs import evolve

from penstock.blocks.block import StoredBlock
from penstock.receive.messages import AddBlocks, DeregisterReceiver, Registered, RegisterReceiver, ReportError
from penstock.wire.messages import Reply

R = TypeVar("R")


class ReceiverDriver(Protocol):
    """Accepts a receiver and its blocks. Called on any thread; an error means that the call may not have arrived."""

    def register(self, receiver_type: str) -> Registered:
        """Announce a receiver that is about to start, for the first time or again.

        Args:
            receiver_type: name of its class.
        """
        ...

    def add_blocks(self, blocks: list[StoredBlock]) -> Reply:
        """Have stored blocks accepted, all or none. The same list is repeated after an error."""
        ...

    def report_error(self, message: str, error: str) -> None:
        """Report an error after which the receiver continues.

        Args:
            message: one line.
            error: the traceback; empty if there is none.
        """
        ...

    def deregister(self, message: str, error: str, *, flushed: int = 0, dropped: int = 0, ended: bool = False) -> None:
        """Announce that a receiver has stopped.

        Args:
            message: why.
            error: the traceback if an error was the reason; else empty.
            flushed: number of records that were buffered at the stop and are stored.
            dropped: number of records that were buffered at the stop and are lost.
            ended: it does not restart by itself, and every record that it took is stored or lost.
        """
        ...


class Asks(Protocol):
    """Sends messages, as ``wire.client.Client`` does."""

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Send a message and return the reply.

        Raises:
            WireError: there is none.
        """
        ...


class TrackerClient:
    """The ReceiverTracker, as one launch of a receiver sees it.

    Args:
        client: connected to the tracker's endpoint.
        registration: the message of each registration, without the receiver's type.
    """

    def __init__(self, client: Asks, registration: RegisterReceiver) -> None:
        self._client, self._registration = client, registration
        self._launch = registration.stream_id, registration.epoch

    def register(self, receiver_type: str) -> Registered:
        """Send ``RegisterReceiver``."""
        return self._client.ask(evolve(self._registration, receiver_type=receiver_type), Registered)

    def add_blocks(self, blocks: list[StoredBlock]) -> Reply:
        """Send ``AddBlocks``."""
        return self._client.ask(AddBlocks(*self._launch, blocks), Reply)

    def report_error(self, message: str, error: str) -> None:
        """Send ``ReportError``."""
        self._client.ask(ReportError(*self._launch, message, error), Reply)

    def deregister(self, message: str, error: str, *, flushed: int = 0, dropped: int = 0, ended: bool = False) -> None:
        """Send ``DeregisterReceiver``."""
        self._client.ask(DeregisterReceiver(*self._launch, message, error, flushed, dropped, ended), Reply)
