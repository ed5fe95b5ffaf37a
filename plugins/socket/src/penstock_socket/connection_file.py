"""``ConnectionFile``: a connection as a file that a converter reads.

Before it waits for bytes, it stores the records that are due, so that a converter that blocks in ``read`` delays none.
It stores only on the receiver's thread, which created it; a read on another thread stores nothing. It never closes the
connection.
"""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

from penstock_socket.connection import Connection
from penstock_socket.record_batcher import RecordBatcher

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class ConnectionFile(io.RawIOBase):
    """The raw file; the converter gets a buffered reader on top of it.

    Args:
        connection: open.
        batcher: collects the records of the bytes read so far.
    """

    def __init__(self, connection: Connection, batcher: RecordBatcher) -> None:
        self._connection = connection
        self._batcher = batcher
        self._owner = threading.get_ident()
        #: Whether the server has closed the connection and all its bytes have been read.
        self.ended = False
        #: The error that broke the connection.
        self.fault: OSError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read at least one byte; return 0 at the end.

        Raises:
            Interrupted: the receiver is stopping.
            OSError: the connection broke.
        """
        space = memoryview(buffer).cast("B")
        if not space:
            return 0
        try:
            received = self._receive_into(space)
        except OSError as error:
            self.fault = error
            raise
        self.ended = received == 0
        return received

    def _receive_into(self, space: memoryview) -> int:
        received = None
        if threading.get_ident() == self._owner and (timeout_s := self._batcher.store_or_wait_s()) is not None:
            received = self._connection.receive_into(space, timeout_s)
            if received is None:
                self._batcher.store()
        if received is None:
            received = self._connection.receive_into(space, None)
        assert received is not None  # None only after a timeout
        self._batcher.num_bytes += received
        return received
