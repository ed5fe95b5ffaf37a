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
from penstock_socket.splitter import Splitter

_LENGTH = struct.Struct(">i")
_PAST_ANY_END = 1 << 31


class FrameSplitter(Splitter):
    """Splits bytes into frames.

    Args:
        max_frame_bytes: a longer frame makes the stream malformed.
        chunk: initial buffer size, bytes.
    """

    def __init__(self, max_frame_bytes: int, chunk: int = CHUNK_BYTES) -> None:
        super().__init__(ReceiveBuffer(_LENGTH.size + max_frame_bytes, max(chunk, _LENGTH.size)))
        self._max_frame_bytes = max_frame_bytes

    def take(self) -> Any:
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
        """The frames that end at these offsets, except the first offset, where the first frame begins."""
        bodies = pa.py_buffer(memoryview(self._buffer.data)[: ends[-1]])
        frames = pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), bodies])
        # Remove the lengths. Arrow copies, so the buffer can be reused. It multiplies the number of values by ``stop``:
        # the default, the largest integer, would overflow.
        return pc.binary_slice(frames, _LENGTH.size, stop=_PAST_ANY_END)
