"""``SocketStreamReceiver``: records that a converter function reads from a TCP server; ``socketStream`` uses it.

The converter runs on the receiver's thread; ``RecordBatcher`` decides when its records are stored.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeVar

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, min_len

from penstock import ReceiverStoppedError
from penstock.spi import get_logger, text_of
from penstock_socket.connection import Connection, Interrupted
from penstock_socket.connection_file import ConnectionFile
from penstock_socket.record_batcher import RecordBatcher
from penstock_socket.tcp_receiver import TcpReceiver

log = get_logger("socket")

T = TypeVar("T")

_BUFFER_BYTES = 64 << 10


@frozen
class SocketStreamOptions:
    """Options of the receiver ``socket-stream``; the ``help`` of each field describes it."""

    host: str = field(validator=min_len(1), metadata={"help": "host name or address of the server"})
    port: int = field(validator=and_(ge(1), le(65535)), metadata={"help": "TCP port of the server"})
    converter: Callable[[BinaryIO], Iterable[Any]] = field(
        metadata={"help": "function: given the connection as a binary file to read from, yields records"},
    )
    connect_timeout: float = field(
        default=10.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "timeout in seconds for resolving the name, and for each of its addresses to accept"},
    )


class StoreFailed(BaseException):
    """A store failed while the converter was reading. Not an ``Exception``: the converter must not handle it."""


class SocketStreamReceiver(TcpReceiver[T]):
    """Stores the records that the converter reads from a connection.

    Args:
        options: server and converter.
    """

    def __init__(self, options: SocketStreamOptions) -> None:
        super().__init__(options.host, options.port, options.connect_timeout)
        self._options = options

    def receive_from(self, connection: Connection) -> None:
        batcher = RecordBatcher(self._store, self.block_interval_ms / 1000, lambda: self.rate_limit)
        file = ConnectionFile(connection, batcher)
        reader = io.BufferedReader(file, _BUFFER_BYTES)
        try:
            try:
                batcher.add_all(self._converted(reader))
                _check_ended(file, reader)
            finally:
                # Also after a stop.
                batcher.store()
        except Interrupted:
            raise
        except StoreFailed as failed:
            self.restart("Error storing what was received", failed.__cause__)
        # Any error of the user's converter ends only this connection.
        except BaseException as error:
            converter = f"The converter failed: {type(error).__name__}: {text_of(error)}"
            self.restart(f"Error receiving data from {self._server}" if file.fault else converter, error)
        else:
            # The converter may have mistaken a broken connection for the end of the stream.
            broken = f"Error receiving data from {self._server}"
            message = broken if file.fault else "Socket data stream had no more data"
            self.restart(message, file.fault)

    def _converted(self, reader: BinaryIO) -> Iterable[T]:
        result = self._options.converter(reader)
        try:
            records: Iterable[T] = iter(result)
        except TypeError as error:
            raise TypeError(
                f"it returned {type(result).__name__}, not an iterable; a converter yields records or returns a list"
            ) from error
        return records

    def _store(self, records: list[T]) -> None:
        try:
            self.store_all(records)
        except ReceiverStoppedError:
            # The receiver stopped while the rate limit delayed the store. These records are lost, like the bytes that
            # are still in the kernel's buffer.
            log.info("records lost at stop", stream_id=self.streamId, at_most=len(records))
            raise Interrupted from None
        except (Exception, SystemExit) as error:
            raise StoreFailed from error


def _check_ended(file: ConnectionFile, reader: io.BufferedReader[Any]) -> None:
    """Raise if the converter ended before its connection: a StopIteration in user code looks like a normal end."""
    if file.fault is not None:
        return
    try:
        ended = file.ended and not reader.peek(1)
    except ValueError:
        ended = file.ended  # closed by the converter
    if not ended:
        raise RuntimeError("it ended before the connection did: it returned, or user code raised StopIteration")
