"""The messages between the driver and the receivers.

Owns their shapes and their JSON. Never pickles: what comes from the wire is parsed, structured into one of these
classes, or refused. Every message may arrive twice; handlers must take that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin

import cattrs
from attrs import frozen, has
from cattrs.gen import make_dict_structure_fn

from penstock.blocks.block import StoredBlock
from penstock.errors import WireError

M = TypeVar("M")

#: What comes with the refusal of a block that an endpoint does not have, and with no other.
BLOCK_GONE = b"gone"


@frozen
class Reply:
    """The answer to any message: taken or not, and why not."""

    accepted: bool = True
    reason: str = ""


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
class FindBlock:
    """A batch's task to driver: where can this block be had now? Answered by ``BlockSource``.

    Attributes:
        block_id: of the block.
        address: of the host that asks, on which the block's file is not.
    """

    block_id: str
    address: str


@frozen
class BlockSource:
    """The answer to ``FindBlock``.

    Attributes:
        source: the address of an endpoint that serves the place where the block is; empty when there is none.
        is_gone: there is none, and none will come.
    """

    source: str
    is_gone: bool = False


@frozen
class LostBlock:
    """A block that could not be read, and why."""

    block_id: str
    stream_id: int
    num_records: int
    reason: str


@frozen
class BlocksLost:
    """A batch's task to driver: these blocks are gone."""

    blocks: list[LostBlock]


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
    """Driver to receiver: from now on, this many records/s.

    Attributes:
        rate: wanted.
        number: of the order; one with a lower number than another that came before is late, and counts no more.
    """

    rate: float
    number: int


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


def _exactly(value: Any, kind: type[Any]) -> Any:
    """Structure a primitive: cattrs would make text of a number and a number of text."""
    if type(value) is kind or (kind is float and type(value) is int):
        return kind(value)
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def _from_object(kind: type[Any]) -> Callable[[Any, Any], Any]:
    """Structure a message or a part of it: of a JSON object, nothing else that happens to work like one."""
    structure = make_dict_structure_fn(kind, _converter, _cattrs_forbid_extra_keys=True)

    def from_object(value: Any, _kind: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"expected an object, got {type(value).__name__}")
        return structure(value, _kind)

    return from_object


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _from_list(value: Any, kind: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"expected a list, got {type(value).__name__}")
    (item,) = get_args(kind)
    return [_converter.structure(each, item) for each in value]


_converter = cattrs.Converter()
for _primitive in (str, int, float, bool):
    _converter.register_structure_hook(_primitive, _exactly)
_converter.register_structure_hook_factory(has, _from_object)
_converter.register_structure_hook_func(_is_list, _from_list)


def to_json(message: object) -> bytes:
    """Write a message."""
    return json.dumps(_converter.unstructure(message), separators=(",", ":")).encode()


def from_json(kind: type[M], body: bytes) -> M:
    """Read a message of a known kind.

    Raises:
        WireError: it is not JSON, or not of that shape.
    """
    try:
        return _converter.structure(json.loads(body), kind)
    except (ValueError, TypeError, KeyError, RecursionError, cattrs.BaseValidationError) as error:
        raise WireError(f"not a {kind.__name__} message: {type(error).__name__}") from None
