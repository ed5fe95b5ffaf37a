"""``ReceiveBuffer`` grows with the bytes received up to its maximum, and shrinks again."""

from __future__ import annotations

import pytest

from penstock_socket.receive_buffer import ReceiveBuffer


def fill(buffer: ReceiveBuffer, data: bytes) -> None:
    while data:
        space = buffer.space(len(data))
        count = len(space)
        space[:], data = data[:count], data[count:]
        buffer.advance(count)


def test_grows_to_the_cap_and_not_beyond() -> None:
    buffer = ReceiveBuffer(cap=100, chunk=16)
    fill(buffer, bytes(range(100)))
    assert bytes(buffer.data) == bytes(range(100))
    with pytest.raises(BufferError, match="100 bytes"):
        buffer.space(1)


def test_cap_below_the_chunk_costs_nothing() -> None:
    buffer = ReceiveBuffer(cap=3, chunk=16)
    assert len(buffer.space(100)) == 16


def test_space_is_never_more_than_asked_for() -> None:
    assert len(ReceiveBuffer(cap=100, chunk=16).space(7)) == 7


@pytest.mark.parametrize("dropped", [0, 1, 5, 9, 10])
def test_dropping_keeps_the_rest(dropped: int) -> None:
    buffer = ReceiveBuffer(cap=100, chunk=16)
    fill(buffer, b"0123456789")
    buffer.drop(dropped)
    assert bytes(buffer.data[: buffer.filled]) == b"0123456789"[dropped:]


def test_memory_of_a_long_record_is_released() -> None:
    buffer = ReceiveBuffer(cap=1000, chunk=16)
    fill(buffer, b"x" * 900 + b"rest")
    assert len(buffer.data) == 1000
    buffer.drop(900)
    assert len(buffer.data) == 16
    assert bytes(buffer.data[: buffer.filled]) == b"rest"
