"""``ReceiveBuffer``: received bytes that have not been consumed.

It grows with the bytes received, up to a maximum. A length that the server announces allocates nothing.
"""

from __future__ import annotations

#: Received bytes are split when there are this many, or when they are due.
CHUNK_BYTES = 1 << 20


class ReceiveBuffer:
    """Filled at the end, consumed from the front.

    Args:
        cap: maximum size, bytes.
        chunk: initial size, and the size after a longer record has been consumed.
    """

    def __init__(self, cap: int, chunk: int = CHUNK_BYTES) -> None:
        self._cap = max(cap, chunk)
        self._chunk = chunk
        #: The memory; only the first ``filled`` bytes are valid.
        self.data = bytearray(chunk)
        #: Bytes received and not consumed.
        self.filled = 0

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full; ``space`` then grows it."""
        return self.filled == len(self.data)

    def space(self, at_most: int) -> memoryview:
        """Return free space for the next bytes: at least one byte, at most ``at_most``.

        Raises:
            BufferError: the buffer is full at its maximum size.
        """
        if self.filled == self._cap:
            raise BufferError(f"{self._cap} bytes were received and none was consumed")
        if self.is_full:
            self._move_to(bytearray(min(2 * len(self.data), self._cap)))
        return memoryview(self.data)[self.filled : self.filled + at_most]

    def advance(self, count: int) -> None:
        """Note that ``count`` bytes were received into the space."""
        self.filled += count

    def drop(self, count: int) -> None:
        """Drop ``count`` bytes from the front."""
        if not count:
            return
        rest = self.filled - count
        # Views on both sides, because such a copy may overlap.
        view = memoryview(self.data)
        view[:rest] = view[count : self.filled]
        self.filled = rest
        if len(self.data) > self._chunk > 2 * rest:
            self._move_to(bytearray(self._chunk))

    def _move_to(self, data: bytearray) -> None:
        data[: self.filled] = memoryview(self.data)[: self.filled]
        self.data = data
