"""Messages between the driver and its receivers. Every message may arrive twice; handlers must tolerate that."""

from __future__ import annotations

from attrs import frozen

from penstock.blocks.block import StoredBlock


@frozen
class RegisterReceiver:
    """Receiver to driver: this receiver is up (again). Answered by ``Registered``.

    Attributes:
        stream_id: of its input stream.
        epoch: the number of its launch.
        receiver_type: its class.
        port: of its endpoint.
        host: the address of that.
        directory: of the blocks that it serves, whichever receiver of the run stored them; empty for none.
        disk_bytes: the size of the disk that its blocks are on, 0 when that is not known.
    """

    stream_id: int
    epoch: int
    receiver_type: str
    port: int
    host: str = "127.0.0.1"
    directory: str = ""
    disk_bytes: int = 0


@frozen
class Registered:
    """The answer to ``RegisterReceiver``.

    Attributes:
        accepted: whether the receiver may start.
        reason: why not.
        rate: to keep to, records/s, ``None`` when there is none.
        paused: take nothing until ``PauseReceiver`` says otherwise.
        number: of this order, which counts for rate and pause unless a later one has come already.
    """

    accepted: bool
    reason: str = ""
    rate: float | None = None
    paused: bool = False
    number: int = 0


@frozen
class AddBlocks:
    """Receiver to driver: these blocks are stored."""

    stream_id: int
    epoch: int
    blocks: list[StoredBlock]


@frozen
class ReportError:
    """Receiver to driver: something went wrong, the receiver goes on."""

    stream_id: int
    epoch: int
    message: str
    error: str


@frozen
class DeregisterReceiver:
    """Receiver to driver: the receiver has stopped.

    Attributes:
        stream_id: of its input stream.
        epoch: the number of its launch.
        message: why.
        error: the traceback when an error was the reason.
        flushed: records that were buffered when it stopped, and are stored.
        dropped: records that were buffered, and are lost.
        ended: it does not come back by itself, and all that it took is stored or lost.
    """

    stream_id: int
    epoch: int
    message: str
    error: str
    flushed: int = 0
    dropped: int = 0
    ended: bool = False


@frozen
class StopReceiver:
    """Driver to receiver: stop, flush, deregister.

    Attributes:
        message: why.
        serve_ms: how long blocks are served then still, if no ``ReleaseReceiver`` ends it before.
    """

    message: str
    serve_ms: int = 0


@frozen
class ReleaseReceiver:
    """Driver to receiver: nothing needs its blocks any more, it may go."""


@frozen
class UpdateRateLimit:
    """Driver to receiver: the desired state. A receiver ignores one with a lower number than it has seen.

    Attributes:
        rate: records/s; ``None`` for no limit.
        number: grows with every change of the desired state.
        paused: store nothing; ``None`` leaves that unchanged.
    """

    rate: float | None
    number: int
    paused: bool | None = None


@frozen
class PauseReceiver:
    """Driver to receiver: take nothing more, or go on.

    Attributes:
        paused: whether to take nothing.
        number: of the order, as that of ``UpdateRateLimit``.
    """

    paused: bool
    number: int


@frozen
class CleanUpBlocks:
    """Driver to receiver: nothing needs these blocks any more."""

    block_ids: list[str]
