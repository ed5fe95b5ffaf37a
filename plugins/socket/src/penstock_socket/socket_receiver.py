"""``SocketReceiver``: lines of text from a TCP server; ``socketTextStream`` uses it."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, le, min_len

from penstock.spi import ErrorCounts, LineRules
from penstock_socket.line_splitter import LineSplitter
from penstock_socket.splitter import Splitter
from penstock_socket.splitting_receiver import SplittingReceiver


@frozen
class SocketOptions:
    """Options of the receiver ``socket``; the ``help`` of each field describes it."""

    host: str = field(validator=min_len(1), metadata={"help": "host name or address of the server"})
    port: int = field(validator=and_(ge(1), le(65535)), metadata={"help": "TCP port of the server"})
    encoding_errors: Literal["replace", "refuse"] = field(
        default="replace",
        validator=in_(("replace", "refuse")),
        metadata={"help": "a line that is not UTF-8: replace puts U+FFFD for malformed bytes, refuse drops it"},
    )
    max_line_bytes: int = field(
        default=1 << 20,
        validator=and_(ge(1), le(1 << 30)),
        metadata={"help": "a longer line is dropped and counted; it is never held in memory"},
    )
    connect_timeout: float = field(
        default=10.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "timeout in seconds for resolving the name, and for each of its addresses to accept"},
    )


class SocketReceiver(SplittingReceiver[str]):
    """Receives lines.

    Args:
        options: server and line rules.
    """

    def __init__(self, options: SocketOptions) -> None:
        super().__init__(options.host, options.port, options.connect_timeout)
        self._options = options

    def make_splitter(self, errors: ErrorCounts) -> Splitter:
        rules = LineRules(self._options.max_line_bytes, self._options.encoding_errors == "refuse")
        return LineSplitter(rules, errors)
