"""``SplittingReceiver``: from a TCP connection to blocks of what a splitter makes of its bytes.

Owns when what was received is split and stored: every block interval, or sooner when there is much of it. Never knows
what a record is: that is the splitter's. Runs on the receiver's thread.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from typing import TypeVar

from penstock import ReceiverStoppedError
from penstock.helpers import get_logger
from penstock_socket.connection import Connection
from penstock_socket.error_counts import ErrorCounts
from penstock_socket.receive_buffer import CHUNK_BYTES
from penstock_socket.splitter import Splitter
from penstock_socket.table_batcher import TableBatcher
from penstock_socket.tcp_receiver import TcpReceiver

log = get_logger("socket")

T = TypeVar("T")

# The least to ask the kernel for, however low the rate limit is.
_LEAST_BYTES = 256


class SplittingReceiver(TcpReceiver[T]):
    """What the receivers of lines and of frames share.

    Args:
        host: name or address of the server.
        port: of the server.
        connect_timeout_s: see Connection.
    """

    def __init__(self, host: str, port: int, connect_timeout_s: float) -> None:
        super().__init__(host, port, connect_timeout_s)
        self._errors = ErrorCounts()

    @abstractmethod
    def make_splitter(self, errors: ErrorCounts) -> Splitter:
        """A splitter for a new connection.

        Args:
            errors: where it counts what it cannot give as it came.
        """

    def receive_from(self, connection: Connection) -> None:
        """Split and store what comes; tell of what was counted."""
        try:
            self._receive_and_store(connection)
        finally:
            self._report_errors()

    def _receive_and_store(self, connection: Connection) -> None:
        splitter = self.make_splitter(self._errors)
        batcher = TableBatcher(self.block_interval_ms / 1000)
        fault: Exception | None = None
        try:
            self._receive_until_end(connection, splitter, batcher)
        except OSError as error:
            fault = error
        finally:
            # Whatever has ended it, also a stop: all that is whole is stored.
            batcher.add(splitter.take())
            self._store(batcher)
        fault = fault or splitter.fault
        self.restart("Error receiving data" if fault else "Socket data stream had no more data", fault)

    def _receive_until_end(self, connection: Connection, splitter: Splitter, batcher: TableBatcher) -> None:
        """Receive until the stream has ended or makes no sense any more.

        Raises:
            Interrupted: the receiver is to stop.
            OSError: the connection broke.
        """
        while splitter.fault is None:
            # With a rate limit, no further ahead than the limiter lets pass in one go: the rest waits in the kernel,
            # and holds the server once that has no room left.
            rate = self.rate_limit
            records = math.inf if rate is None else rate * self.block_interval_ms / 1000
            at_once = int(max(_LEAST_BYTES, min(records * batcher.record_bytes, CHUNK_BYTES)))
            received = connection.receive_into(splitter.space(at_once), self._patience_s(batcher))
            if received == 0:
                splitter.end()
                return
            now_s = time.monotonic()
            if received is not None:
                splitter.advance(received)
                batcher.begin(now_s)
            if splitter.is_full or splitter.pending >= at_once or batcher.is_due(now_s, records):
                batcher.add(splitter.take())
            if batcher.is_due(now_s, records):
                self._store(batcher)
            if self._errors.due_s(now_s) == 0:
                self._report_errors()

    def _patience_s(self, batcher: TableBatcher) -> float | None:
        """How long to wait for more bytes, ``None`` for ever."""
        now_s = time.monotonic()
        waits = [] if batcher.due_s is None else [batcher.due_s - now_s]
        if (to_tell_s := self._errors.due_s(now_s)) is not None:
            waits.append(to_tell_s)
        return max(0.0, min(waits)) if waits else None

    def _store(self, batcher: TableBatcher) -> None:
        table = batcher.take()
        if table is None:
            return
        try:
            self.store_arrow(table)
        except ReceiverStoppedError:
            # Stopped while the rate limit held it: gone, as all is that the server has sent and nobody has received.
            log.info("received and not stored", stream_id=self.streamId, at_most=table.num_rows)
            raise

    def _report_errors(self) -> None:
        now_s = time.monotonic()
        if self._errors.due_s(now_s) is not None:
            self.reportError(self._errors.report(now_s))
