"""``EventLoop``: one queue, one thread."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.errors import StreamingStateError
from penstock.runtime.event_loop import EventLoop


class Handled:
    """A loop over numbers, and what it has handled."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.threads: set[threading.Thread] = set()
        self.errors: list[BaseException] = []
        self._changed = threading.Condition()
        self.loop: EventLoop[int] = EventLoop("test loop", self._handle, self.errors.append)

    def _handle(self, event: int) -> None:
        with self._changed:
            self.events.append(event)
            self.threads.add(threading.current_thread())
            self._changed.notify_all()
        if event < 0:
            raise ValueError(str(event))

    def post(self, events: range) -> None:
        for event in events:
            self.loop.post(event)

    def await_count(self, count: int) -> list[int]:
        """What was handled, once it is so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= count, 10), self.events
            return list(self.events)


@pytest.fixture
def handled() -> Iterator[Handled]:
    handled = Handled()
    yield handled
    handled.loop.stop(1)


def test_events_are_handled_in_order_on_one_thread(handled: Handled) -> None:
    handled.loop.start()
    for event in range(1000):
        handled.loop.post(event)
    assert handled.await_count(1000) == list(range(1000))
    (thread,) = handled.threads
    assert (thread.name, thread.daemon) == ("test loop", True)


def test_the_events_of_each_thread_keep_their_order(handled: Handled) -> None:
    handled.loop.start()
    with ThreadPoolExecutor(8) as pool:
        for first in range(0, 8000, 1000):
            pool.submit(handled.post, range(first, first + 1000))
    events = handled.await_count(8000)
    for first in range(0, 8000, 1000):
        assert [event for event in events if first <= event < first + 1000] == list(range(first, first + 1000))


def test_events_posted_before_the_start_wait_for_it(handled: Handled) -> None:
    handled.loop.post(1)
    handled.loop.start()
    handled.loop.post(2)
    assert handled.await_count(2) == [1, 2]


def test_an_error_is_told_and_the_loop_goes_on(handled: Handled) -> None:
    handled.loop.start()
    for event in (1, -2, 3, -4, 5):
        handled.loop.post(event)
    assert handled.await_count(5) == [1, -2, 3, -4, 5]
    assert [str(error) for error in handled.errors] == ["-2", "-4"]


def test_stop_lets_the_event_at_hand_finish_and_forgets_the_others() -> None:
    entered, gate, events = threading.Event(), threading.Event(), list[int]()

    def handle(event: int) -> None:
        entered.set()
        assert gate.wait(10)
        events.append(event)

    loop: EventLoop[int] = EventLoop("test loop", handle, lambda _error: None)
    loop.start()
    for event in (1, 2, 3):
        loop.post(event)
    assert entered.wait(10)
    loop.stop(0.01)
    assert events == []
    gate.set()
    loop.stop(10)
    assert events == [1]


def test_a_stop_that_drains_handles_what_is_there(handled: Handled) -> None:
    handled.loop.start()
    handled.post(range(1000))
    handled.loop.stop(10, drain=True)
    handled.loop.post(1000)
    handled.loop.stop(10, drain=True)
    assert handled.events == list(range(1000))


def test_stop_is_harmless_when_repeated_and_events_after_it_are_ignored(handled: Handled) -> None:
    handled.loop.start()
    handled.loop.post(1)
    handled.await_count(1)
    handled.loop.stop()
    handled.loop.post(2)
    handled.loop.stop()
    assert handled.events == [1]


def test_a_handler_can_stop_its_own_loop() -> None:
    stopped, events = threading.Event(), list[int]()

    def handle(event: int) -> None:
        events.append(event)
        loop.stop()
        stopped.set()

    loop: EventLoop[int] = EventLoop("test loop", handle, lambda _error: None)
    loop.post(1)
    loop.post(2)
    loop.start()
    assert stopped.wait(10)
    loop.stop(10)
    assert events == [1]


def test_a_loop_is_started_once(handled: Handled) -> None:
    handled.loop.start()
    with pytest.raises(StreamingStateError, match="test loop"):
        handled.loop.start()


def test_a_stopped_loop_is_not_started(handled: Handled) -> None:
    handled.loop.stop()
    with pytest.raises(StreamingStateError, match="test loop"):
        handled.loop.start()
