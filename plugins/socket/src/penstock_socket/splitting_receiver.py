"""``SplittingReceiver``: base class of receivers that split a TCP connection's bytes into records.

It decides when bytes are split and stored: every block interval, or sooner if there are many. The splitter knows the
format of a record.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from typing import TypeVar

from penstock import ReceiverStoppedError
from penstock.spi import ErrorCounts, get_logger
from penstock_socket.connection import Connection
from penstock_socket.receive_buffer import CHUNK_BYTES
from penstock_socket.splitter import Splitter
from penstock_socket.table_batcher import TableBatcher
from penstock_socket.tcp_receiver import TcpReceiver

log = get_logger("socket")

T = TypeVar("T")

# Minimum number of bytes to request from the kernel, however low the rate limit is.
_LEAST_BYTES = 256


class SplittingReceiver(TcpReceiver[T]):
    """Receives, splits and stores on the receiver's thread.

    Args:
        host: name or address of the server.
        connect_timeout_s: timeout of ``Connection``.
    """

    def __init__(self, host: str, port: int, connect_timeout_s: float) -> None:
        super().__init__(host, port, connect_timeout_s)
        self._errors = ErrorCounts()

    @abstractmethod
    def make_splitter(self, errors: ErrorCounts) -> Splitter:
        """Create the splitter for a new connection.

        Args:
            errors: counts rejected and repaired records.
        """

    def receive_from(self, connection: Connection) -> None:
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
            # Also after a stop, store the whole records.
            batcher.add(splitter.take())
            self._store(batcher)
        fault = fault or splitter.fault
        self.restart(
            f"Error receiving data from {self._server}" if fault else "Socket data stream had no more data", fault
        )

    def _receive_until_end(self, connection: Connection, splitter: Splitter, batcher: TableBatcher) -> None:
        """Receive until the stream has ended or is malformed.

        Raises:
            Interrupted: the receiver is stopping.
            OSError: the connection broke.
        """
        while splitter.fault is None:
            # With a rate limit, a table has at most the records of one block interval, and only the bytes for it are
            # received. More bytes remain in the kernel's buffer, and TCP flow control slows the server once that is
            # full. Larger tables would become blocks that are not one interval apart, and fill batches unevenly.
            rate = self.rate_limit
            records = math.inf if rate is None else max(1, int(rate * self.block_interval_ms / 1000))
            # Otherwise the records left from the last table suffice for the next one.
            if batcher.records < records:
                wanted = int(max(_LEAST_BYTES, min((records - batcher.records) * batcher.record_bytes, CHUNK_BYTES)))
                space = splitter.space(max(wanted - splitter.pending, 1))
                received = connection.receive_into(space, self._timeout_s(batcher))
                if received == 0:
                    splitter.end()
                    return
                if received is not None:
                    splitter.advance(received)
                    batcher.begin(time.monotonic())
                if splitter.is_full or splitter.pending >= wanted or batcher.is_due(time.monotonic(), records):
                    batcher.add(splitter.take())
            now_s = time.monotonic()
            if batcher.is_due(now_s, records):
                self._store(batcher, records)
                if batcher.records:
                    batcher.begin(time.monotonic())
            if self._errors.due_s(now_s) == 0:
                self._report_errors()

    def _timeout_s(self, batcher: TableBatcher) -> float | None:
        """Maximum time to wait for more bytes; ``None``: no timeout."""
        now_s = time.monotonic()
        waits = [] if batcher.due_s is None else [batcher.due_s - now_s]
        if (report_due_s := self._errors.due_s(now_s)) is not None:
            waits.append(report_due_s)
        return max(0.0, min(waits)) if waits else None

    def _store(self, batcher: TableBatcher, at_most: float = math.inf) -> None:
        table = batcher.take(at_most)
        if table is None:
            return
        try:
            self.store_arrow(table)
        except ReceiverStoppedError:
            # The receiver stopped while the rate limit delayed the store. The table is lost, like the bytes that are
            # still in the kernel's buffer. Drop the other records too: storing them would leave a gap.
            log.info("records lost at stop", stream_id=self.streamId, at_most=table.num_rows + batcher.records)
            batcher.take()
            raise

    def _report_errors(self) -> None:
        now_s = time.monotonic()
        if self._errors.due_s(now_s) is not None:
            self.reportError(self._errors.report(now_s))
