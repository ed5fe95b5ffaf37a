"""``FrameSplitter``: splits received bytes into length-prefixed frames.

A frame is its length (four bytes, big-endian, signed, as Java's ``DataInputStream.readInt`` reads it) and that many
bytes.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock_socket.receive_buffer import CHUNK_BYTES, ReceiveBuffer

_LENGTH = struct.Struct(">i")
_PAST_ANY_END = 1 << 31


class FrameSplitter:
    """Bytes in, frames out.

    Args:
        max_frame_bytes: a longer frame makes the stream malformed.
        chunk: initial buffer size, bytes.
    """

    def __init__(self, max_frame_bytes: int, chunk: int = CHUNK_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = ReceiveBuffer(_LENGTH.size + max_frame_bytes, max(chunk, _LENGTH.size))
        self._searched = 0
        self._ended = False
        #: Why the rest of the stream is malformed; ``None`` until ``take`` has found it so.
        self.fault: Exception | None = None

    @property
    def pending(self) -> int:
        """Bytes received and not searched."""
        return self._buffer.filled - self._searched

    @property
    def is_full(self) -> bool:
        """Whether ``take`` must be called before there is more space."""
        return self._buffer.is_full

    def space(self, at_most: int) -> memoryview:
        """Return where to receive into: at least one byte, at most ``at_most``."""
        return self._buffer.space(at_most)

    def advance(self, count: int) -> None:
        """Note that ``count`` bytes were received into the space."""
        self._buffer.advance(count)

    def end(self) -> None:
        """Note the end of the stream: remaining bytes are a fault."""
        self._ended = True

    def take(self) -> Any:
        """Return the whole frames as a BinaryArray, ``None`` when there are none."""
        if self.fault is not None:
            return None
        data, filled = self._buffer.data, self._buffer.filled
        ends = array("i", [0])
        end = 0
        while filled - end >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, end)
            if not 0 <= length <= self._max_frame_bytes:
                self.fault = ValueError(
                    f"a frame of {length} bytes is announced; it must be 0 to {self._max_frame_bytes} (max_frame_bytes)"
                )
                break
            if filled - end - _LENGTH.size < length:
                break
            end += _LENGTH.size + length
            ends.append(end)
        if self._ended and self.fault is None and end < filled:
            self.fault = EOFError(f"the stream ended inside a frame, after {filled - end} of its bytes")
        column = self._column(ends) if end else None
        self._buffer.drop(end)
        self._searched = self._buffer.filled
        return column

    def _column(self, ends: array[int]) -> Any:
        """The frames that end at these offsets; the first offset is where the first frame begins."""
        bodies = pa.py_buffer(memoryview(self._buffer.data)[: ends[-1]])
        frames = pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), bodies])
        # Without the lengths. Arrow copies, so the buffer is free again. It multiplies the number of values by this
        # stop; the default, the largest integer, would overflow.
        return pc.binary_slice(frames, _LENGTH.size, stop=_PAST_ANY_END)
