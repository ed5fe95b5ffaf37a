"""``ConnectionFile``: a connection as a file to read from.

Owns what a program's function sees of the connection. Never closes it. Before it waits for bytes it has stored what
must not wait, so that a function that reads holds back nothing it gave. Stores on the thread that made it, the
receiver's; a read on another thread only reads.
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
    """The raw file; the program gets a buffered one on top of it.

    Args:
        connection: open.
        batcher: what was made of the bytes so far.
    """

    def __init__(self, connection: Connection, batcher: RecordBatcher) -> None:
        self._connection, self._batcher = connection, batcher
        self._owner = threading.get_ident()
        #: The server has closed the connection, and all its bytes were read.
        self.ended = False
        #: What the connection broke of.
        self.fault: OSError | None = None

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read at least one byte, 0 at the end.

        Raises:
            Interrupted: the receiver is to stop.
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
        if threading.get_ident() == self._owner and (patience_s := self._batcher.store_or_wait_s()) is not None:
            received = self._connection.receive_into(space, patience_s)
            if received is None:
                self._batcher.store()
        if received is None:
            received = self._connection.receive_into(space, None)
        assert received is not None  # there was no limit to the wait
        self._batcher.num_bytes += received
        return received
