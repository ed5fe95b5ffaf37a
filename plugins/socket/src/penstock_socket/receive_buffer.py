"""``ReceiveBuffer``: the bytes that were received and not taken yet.

Owns one piece of memory. Never holds more than its cap, and no more than what came in makes necessary: what a peer
announces allocates nothing. Runs on the receiver's thread.
"""

from __future__ import annotations

#: How much is received before it is looked at, when nothing bids to look earlier.
CHUNK_BYTES = 1 << 20


class ReceiveBuffer:
    """Bytes: filled at the end, taken from the front.

    Args:
        cap: the most it can ever hold.
        chunk: what it holds from the start, and again once a longer record has been taken.
    """

    def __init__(self, cap: int, chunk: int = CHUNK_BYTES) -> None:
        self._cap, self._chunk = max(cap, chunk), chunk
        #: The memory; only the first ``filled`` bytes mean something.
        self.data = bytearray(chunk)
        #: How many bytes were received and not taken.
        self.filled = 0

    @property
    def is_full(self) -> bool:
        """The memory is used up; ``space`` makes it longer."""
        return self.filled == len(self.data)

    def space(self, at_most: int) -> memoryview:
        """Where to receive into: at least one byte, at most so many.

        Raises:
            BufferError: the buffer is at its cap and nothing was taken.
        """
        if self.filled == self._cap:
            raise BufferError(f"{self._cap} bytes were received and none was taken")
        if self.is_full:
            self._move_to(bytearray(min(2 * len(self.data), self._cap)))
        return memoryview(self.data)[self.filled : self.filled + at_most]

    def advance(self, count: int) -> None:
        """So many bytes were received into the space."""
        self.filled += count

    def drop(self, count: int) -> None:
        """Forget so many bytes from the front."""
        if not count:
            return
        rest = self.filled - count
        # Through a view on both sides: that is the way that may overlap.
        view = memoryview(self.data)
        view[:rest] = view[count : self.filled]
        self.filled = rest
        if len(self.data) > self._chunk > 2 * rest:
            self._move_to(bytearray(self._chunk))

    def _move_to(self, data: bytearray) -> None:
        data[: self.filled] = memoryview(self.data)[: self.filled]
        self.data = data
