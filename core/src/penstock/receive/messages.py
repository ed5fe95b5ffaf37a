"""Messages between the driver and its receivers. Each may arrive twice, so handlers are idempotent."""

from __future__ import annotations

from typing import Protocol, TypeVar

from attrs import field, frozen

from penstock.blocks.block import StoredBlock
from penstock.wire.json_codec import Reply

R = TypeVar("R", bound=Reply)


class ReceiverDriver(Protocol):
    """All that a receiver's supervisor needs from outside: an answer to its messages. A ``wire.client.Client`` is one.

    ``RegisterReceiver`` is answered by ``Registered``, every other message by ``Reply``.
    """

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Send a message and return the reply. Called on any thread.

        Raises:
            WireError: no reply arrived, although the message may have. The supervisor then repeats ``AddBlocks``.
        """
        ...


@frozen
class RegisterReceiver:
    """Receiver to driver: a receiver is about to start, for the first time or again.

    Attributes:
        stream_id: id of the input stream.
        epoch: number of the launch.
        receiver_type: name of the receiver's class.
        port: port of the receiver's endpoint.
        host: address of that endpoint.
        directory: directory whose blocks the endpoint serves, whichever receiver stored them; empty if it serves none.
        disk_bytes: size of the disk with the blocks, 0 if unknown.
        plugin: distribution and version of the receiver's plugin there; empty if it belongs to none.
    """

    stream_id: int
    epoch: int
    receiver_type: str
    port: int
    host: str = "127.0.0.1"
    directory: str = ""
    disk_bytes: int = 0
    plugin: str = ""


@frozen
class UpdateRateLimit:
    """Driver to receiver: the desired state. A receiver ignores one with a lower number than it has seen.

    Attributes:
        rate: records/s; ``None`` for no limit.
        number: grows with every change of the desired state.
        paused: store nothing.
    """

    rate: float | None
    number: int
    paused: bool = False


@frozen
class Registered(Reply):
    """The answer to ``RegisterReceiver``: whether the receiver may start, and its desired state.

    Attributes:
        desired: rate limit and pause; ``None`` where the driver sets neither: those in force stay.
    """

    desired: UpdateRateLimit | None = None


@frozen
class AddBlocks:
    """Receiver to driver: these blocks are stored. The driver accepts all or none.

    Attributes:
        stream_id: id of the input stream.
        epoch: number of the launch.
        blocks: the blocks.
        buffered_bytes: size of the records in the receiver's buffer that are in no accepted block yet.
    """

    stream_id: int
    epoch: int
    blocks: list[StoredBlock]
    buffered_bytes: int = 0


@frozen
class ReportError:
    """Receiver to driver: an error after which the receiver continues.

    Attributes:
        stream_id: id of the input stream.
        epoch: number of the launch.
        message: one line.
        error: the traceback; empty if there is none.
        log_lines: the last lines of the process's log, without secrets.
    """

    stream_id: int
    epoch: int
    message: str
    error: str
    log_lines: list[str] = field(factory=list)


@frozen
class DeregisterReceiver:
    """Receiver to driver: the receiver has stopped.

    Attributes:
        stream_id: id of the input stream.
        epoch: number of the launch.
        message: why it stopped.
        error: the traceback if an error was the reason; else empty.
        flushed: number of records that were buffered at the stop and are stored.
        dropped: number of records that were buffered at the stop and are lost.
        ended: it does not restart by itself, and every record that it took is stored or lost.
        log_lines: the last lines of the process's log if an error was the reason, without secrets.
    """

    stream_id: int
    epoch: int
    message: str
    error: str
    flushed: int = 0
    dropped: int = 0
    ended: bool = False
    log_lines: list[str] = field(factory=list)


@frozen
class StopReceiver:
    """Driver to receiver: stop, flush, deregister.

    Attributes:
        message: why.
        serve_ms: how long to serve blocks afterwards, unless ``ReleaseReceiver`` comes earlier.
    """

    message: str
    serve_ms: int = 0


@frozen
class ReleaseReceiver:
    """Driver to receiver: no batch needs the blocks that you serve any more; end."""


@frozen
class CleanUpBlocks:
    """Driver to receiver: no batch needs these blocks any more; delete them."""

    block_ids: list[str]
