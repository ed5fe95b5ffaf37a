"""``RawSocketReceiver``: length-prefixed frames from a TCP server; ``rawSocketStream`` uses it.

Spark's receiver of that name treats each frame as a serialized block. Here a frame is one record of type ``bytes``.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, min_len

from penstock.spi import ErrorCounts
from penstock_socket.frame_splitter import FrameSplitter
from penstock_socket.splitter import Splitter
from penstock_socket.splitting_receiver import SplittingReceiver


@frozen
class RawSocketOptions:
    """Options of the receiver ``raw-socket``; the ``help`` of each field describes it."""

    host: str = field(validator=min_len(1), metadata={"help": "host name or address of the server"})
    port: int = field(validator=and_(ge(1), le(65535)), metadata={"help": "TCP port of the server"})
    max_frame_bytes: int = field(
        default=64 << 20,
        validator=and_(ge(1), le(1 << 30)),
        metadata={"help": "a longer frame, or one of negative length, is an error: the receiver reconnects"},
    )
    connect_timeout: float = field(
        default=10.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "timeout in seconds for resolving the name, and for each of its addresses to accept"},
    )


class RawSocketReceiver(SplittingReceiver[bytes]):
    """Receives frames.

    Args:
        options: server and limits.
    """

    def __init__(self, options: RawSocketOptions) -> None:
        super().__init__(options.host, options.port, options.connect_timeout)
        self._options = options

    def make_splitter(self, errors: ErrorCounts) -> Splitter:
        return FrameSplitter(self._options.max_frame_bytes)
