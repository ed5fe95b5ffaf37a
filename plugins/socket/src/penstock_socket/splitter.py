"""``Splitter``: base class for splitting received bytes into records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock_socket.receive_buffer import ReceiveBuffer


class Splitter(ABC):
    """Turns bytes, which the network may have cut anywhere, into columns of whole records.

    Used on the receiver's thread.

    Args:
        buffer: the received bytes that ``take`` has not returned.

    Attributes:
        fault: why the remaining stream is malformed; ``None`` until ``take`` notices.
    """

    def __init__(self, buffer: ReceiveBuffer) -> None:
        self._buffer = buffer
        # Bytes at the front that ``take`` has searched without a whole record.
        self._searched = 0
        self._ended = False
        self.fault: Exception | None = None

    @property
    def pending(self) -> int:
        """Number of received bytes that have not been searched."""
        return self._buffer.filled - self._searched

    @property
    def is_full(self) -> bool:
        """Whether ``take`` must be called before there is more space."""
        return self._buffer.is_full

    def space(self, at_most: int) -> memoryview:
        """Return free space for the next bytes: at least one byte, at most ``at_most``."""
        return self._buffer.space(at_most)

    def advance(self, count: int) -> None:
        """Note that ``count`` bytes were received into the space."""
        self._buffer.advance(count)

    def end(self) -> None:
        """Note the end of the stream: the remaining bytes are the last record, or a fault."""
        self._ended = True

    @abstractmethod
    def take(self) -> Any:
        """Return the whole records as a pyarrow Array, ``None`` when there are none."""
