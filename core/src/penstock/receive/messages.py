"""Messages between the driver and its receivers. Each may arrive twice, so handlers are idempotent."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from attrs import field, frozen

from penstock.blocks.block import StoredBlock
from penstock.listen.events import SourceStatus, StoreTimes
from penstock.wire.json_codec import Reply

R = TypeVar("R", bound=Reply)


def launch_name(stream_id: int, epoch: int) -> str:
    """The name of a launch's token."""
    return f"{stream_id}/{epoch}"


class ReceiverDriver(Protocol):
    """Answers the messages of a receiver's supervisor, as a ``wire.client.Client`` does."""

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Send a message on any thread; raises ``WireError`` without a reply, although the message may have arrived."""


@frozen
class RegisterReceiver:
    """Receiver to driver: a receiver is about to start, for the first time or again."""

    stream_id: int
    # Number of the launch.
    epoch: int
    receiver_type: str
    # Address of the receiver's endpoint.
    port: int
    host: str = "127.0.0.1"
    # Directory whose blocks the endpoint serves, whichever receiver stored them; empty if it serves none.
    directory: str = ""
    # Size of the disk with the blocks, 0 if unknown.
    disk_bytes: int = 0
    # Distribution and version of the receiver's plugin there; empty if it belongs to none.
    plugin: str = ""


@frozen
class UpdateRateLimit:
    """Driver to receiver: the desired state. A receiver ignores one with a lower number than it has seen."""

    # Records/s; ``None`` for no limit.
    rate: float | None
    # Grows with every change of the desired state.
    number: int
    paused: bool = False


@frozen
class Registered(Reply):
    """The answer to ``RegisterReceiver``: whether the receiver may start, its desired state and its position."""

    # Rate limit and pause; ``None`` keeps those in force.
    desired: UpdateRateLimit | None = None
    # The merged metadata of the stream's accepted blocks; ``None`` without any.
    position: dict[str, Any] | None = None


@frozen
class AddBlocks:
    """Receiver to driver: these blocks are stored. The driver accepts all or none.

    Without blocks, the message reports the status of a receiver that stores none.
    """

    stream_id: int
    epoch: int
    blocks: list[StoredBlock]
    # Size of the records in the receiver's buffer that are in no accepted block yet.
    buffered_bytes: int = 0
    # The new status of the receiver's source, if there is one.
    source: SourceStatus | None = None
    # Where the time of the launch has gone, unless reported lately.
    times: StoreTimes | None = None


@frozen
class ReportError:
    """Receiver to driver: an error after which the receiver continues."""

    stream_id: int
    epoch: int
    message: str
    # The traceback; empty if there is none.
    error: str
    # The last lines of the process's log, without secrets.
    log_lines: list[str] = field(factory=list)


@frozen
class DeregisterReceiver:
    """Receiver to driver: the receiver has stopped."""

    stream_id: int
    epoch: int
    message: str
    # The traceback if an error was the reason; else empty.
    error: str
    # Numbers of records that were buffered at the stop and are stored, or lost.
    flushed: int = 0
    dropped: int = 0
    # The receiver does not restart by itself, and every record that it took is stored or lost.
    ended: bool = False
    # Delay after which the receiver restarts by itself, if it does.
    restart_delay_ms: float = 0.0
    log_lines: list[str] = field(factory=list)


@frozen
class StopReceiver:
    """Driver to receiver: stop, flush, deregister."""

    message: str
    # Maximum time to serve blocks afterwards; ``ReleaseReceiver`` ends it earlier.
    serve_ms: int = 0


@frozen
class ReleaseReceiver:
    """Driver to receiver: no batch needs the blocks of this launch; end the task."""


@frozen
class CleanUpBlocks:
    """Driver to receiver: no batch needs these blocks; delete them."""

    block_ids: list[str]
