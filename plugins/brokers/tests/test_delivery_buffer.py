"""``DeliveryBuffer``: batches in order, bounds, and the ends of a session."""

from __future__ import annotations

import threading

import pytest
from tests.helpers import run_in_background

from penstock_brokers import DeliveryBuffer

LONG_S = 20.0


def filled(count: int, *, max_messages: int = 100, max_bytes: int = 1000, size: int = 1) -> DeliveryBuffer[int]:
    buffer: DeliveryBuffer[int] = DeliveryBuffer(max_messages, max_bytes)
    for number in range(count):
        buffer.put(number, size)
    return buffer


def messages(buffer: DeliveryBuffer[int], most: int, linger_s: float = 0.0, timeout_s: float = 0.0) -> list[int]:
    return [delivery.message for delivery in buffer.take(most, linger_s, timeout_s)]


def test_messages_are_taken_in_order_and_at_most_so_many() -> None:
    buffer = filled(5)
    assert [messages(buffer, 3), messages(buffer, 3), messages(buffer, 3)] == [[0, 1, 2], [3, 4], []]
    assert len(buffer) == 0


def test_a_full_batch_does_not_linger() -> None:
    buffer = filled(2)
    taken: list[int] = []
    thread = run_in_background(lambda: taken.extend(messages(buffer, 3, LONG_S, LONG_S)))
    buffer.put(2, 1)
    thread.result(LONG_S / 2)
    assert taken == [0, 1, 2]


def test_a_buffer_that_is_full_in_bytes_does_not_linger() -> None:
    buffer = filled(3, max_bytes=30, size=10)
    assert buffer.is_full
    assert messages(buffer, 100, LONG_S, LONG_S) == [0, 1, 2]
    assert not buffer.is_full


def test_an_incomplete_batch_is_taken_after_the_linger_time() -> None:
    assert messages(filled(1), 100, 0.01, LONG_S) == [0]


def test_put_waits_for_room_and_goes_beyond_the_bound_after_the_timeout() -> None:
    buffer = filled(2, max_messages=2)
    assert not buffer.await_room(0.01)
    answers: list[bool] = []
    thread = run_in_background(lambda: answers.append(buffer.await_room(LONG_S)))
    assert messages(buffer, 1) == [0]
    thread.result(LONG_S / 2)
    assert answers == [True]


def test_a_wait_for_an_answer_behind_the_messages_lifts_the_bound() -> None:
    buffer = filled(2, max_messages=2)
    waiting = run_in_background(lambda: buffer.await_room(LONG_S))
    with buffer.unbounded():
        assert waiting.result(LONG_S / 2)
    assert not buffer.await_room(0)


def test_the_oldest_message_is_known() -> None:
    buffer = filled(0)
    assert buffer.oldest_s is None
    buffer.put(1, 1)
    oldest_s = buffer.oldest_s
    buffer.put(2, 1)
    assert oldest_s is not None
    assert buffer.oldest_s == oldest_s
    assert buffer.take(1, 0, 0)[0].arrived_s == oldest_s


def test_the_end_of_a_session_drops_its_messages_and_wakes_everybody() -> None:
    buffer = filled(0, max_messages=1)
    outcomes: list[object] = []
    done = threading.Event()

    def take() -> None:
        try:
            messages(buffer, 5, LONG_S, LONG_S)
        except ConnectionError as error:
            outcomes.append(error)
        done.set()

    run_in_background(take)
    error = ConnectionError("gone")
    buffer.close(error)
    assert done.wait(LONG_S)
    assert outcomes == [error]
    buffer.put(1, 1)
    buffer.close(ValueError("later errors do not count"))
    with pytest.raises(ConnectionError):
        buffer.take(1, 0, 0)
    assert (len(buffer), buffer.await_room(0)) == (0, True)


def test_a_stop_drops_the_messages_without_an_error() -> None:
    buffer = filled(3)
    buffer.close()
    assert messages(buffer, 5, LONG_S, LONG_S) == []
