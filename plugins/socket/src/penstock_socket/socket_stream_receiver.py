"""``SocketStreamReceiver``: what a function reads from a TCP server, the receiver behind ``socketStream``.

Owns its options, the call of the converter, and what becomes of its end. The converter runs on the receiver's thread;
when its records are stored is RecordBatcher's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeVar

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, min_len

from penstock import ReceiverStoppedError
from penstock.helpers import get_logger, text_of
from penstock_socket.connection import Connection, Interrupted
from penstock_socket.connection_file import ConnectionFile
from penstock_socket.record_batcher import RecordBatcher
from penstock_socket.tcp_receiver import TcpReceiver

log = get_logger("socket")

T = TypeVar("T")

_BUFFER_BYTES = 64 << 10


@frozen
class SocketStreamOptions:
    """Options of the receiver ``socket-stream``; each one's meaning is its ``help``."""

    host: str = field(validator=min_len(1), metadata={"help": "name or address of the server"})
    port: int = field(validator=and_(ge(1), le(65535)), metadata={"help": "TCP port of the server"})
    converter: Callable[[BinaryIO], Iterable[Any]] = field(
        metadata={"help": "function: given the connection as a binary file to read from, yields records"},
    )
    connect_timeout: float = field(
        default=10.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "seconds to wait for the name to be resolved, and for each of its addresses to answer"},
    )


class StoreFailed(BaseException):
    """A store failed while the converter was reading: nothing that the converter handles."""


class SocketStreamReceiver(TcpReceiver[T]):
    """Receives what the converter makes of a connection's bytes.

    Args:
        options: where from, and the converter.
    """

    def __init__(self, options: SocketStreamOptions) -> None:
        super().__init__(options.host, options.port, options.connect_timeout)
        self._options = options

    def receive_from(self, connection: Connection) -> None:
        """Give the connection to the converter, store what it yields, and restart when it ends, however it does."""
        batcher = RecordBatcher(self._store, self.block_interval_ms / 1000, lambda: self.rate_limit)
        file = ConnectionFile(connection, batcher)
        reader = io.BufferedReader(file, _BUFFER_BYTES)
        try:
            try:
                batcher.add_all(self._converted(reader))
                _check_ended(file, reader)
            finally:
                # Whatever has ended it, also a stop.
                batcher.store()
        except Interrupted:
            raise
        except StoreFailed as failed:
            self.restart("Error storing what was received", failed.__cause__)
        # The converter is the program's: whatever it raises ends this connection and no more.
        except BaseException as error:
            converter = f"The converter failed: {type(error).__name__}: {text_of(error)}"
            self.restart("Error receiving data" if file.fault else converter, error)
        else:
            # The converter may have taken a broken connection for an end.
            message = "Error receiving data" if file.fault else "Socket data stream had no more data"
            self.restart(message, file.fault)

    def _converted(self, reader: BinaryIO) -> Iterable[T]:
        made = self._options.converter(reader)
        try:
            records: Iterable[T] = iter(made)
        except TypeError as error:
            raise TypeError(
                f"it gave {type(made).__name__}, which is no iterable; a converter yields records, or returns several"
            ) from error
        return records

    def _store(self, records: list[T]) -> None:
        try:
            self.store_all(records)
        except ReceiverStoppedError:
            # Stopped while the rate limit held it: gone, as all is that the server has sent and nobody has received.
            log.info("received and not stored", stream_id=self.streamId, at_most=len(records))
            raise Interrupted from None
        except (Exception, SystemExit) as error:
            raise StoreFailed from error


def _check_ended(file: ConnectionFile, reader: io.BufferedReader[Any]) -> None:
    """Refuse a converter's end before the connection's: iterators take a StopIteration in a function for their end."""
    if file.fault is not None:
        return
    try:
        ended = file.ended and not reader.peek(1)
    except ValueError:
        ended = file.ended  # closed by the converter
    if not ended:
        raise RuntimeError("it gave no more records before the connection ended: returned, or raised a StopIteration")
