"""``EventLoop``: one queue, one thread."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.errors import StreamingStateError
from penstock.runtime.event_loop import EventLoop
from penstock_testing import ManualClock


class Handled:
    """A loop over numbers that records what it handles; negative numbers fail."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.events: list[int] = []
        self.threads: set[threading.Thread] = set()
        self.errors: list[BaseException] = []
        self._changed = threading.Condition()
        self.loop: EventLoop[int] = EventLoop("test loop", self._handle, self.errors.append, clock)

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
        """The handled events, once there are this many."""
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


def test_events_of_each_posting_thread_keep_their_order(handled: Handled) -> None:
    handled.loop.start()
    with ThreadPoolExecutor(8) as pool:
        for first in range(0, 8000, 1000):
            pool.submit(handled.post, range(first, first + 1000))
    events = handled.await_count(8000)
    for first in range(0, 8000, 1000):
        assert [event for event in events if first <= event < first + 1000] == list(range(first, first + 1000))


def test_events_posted_before_start_are_handled_after_it(handled: Handled) -> None:
    handled.loop.post(1)
    handled.loop.start()
    handled.loop.post(2)
    assert handled.await_count(2) == [1, 2]


def test_handler_error_is_reported_and_the_loop_continues(handled: Handled) -> None:
    handled.loop.start()
    for event in (1, -2, 3, -4, 5):
        handled.loop.post(event)
    assert handled.await_count(5) == [1, -2, 3, -4, 5]
    assert [str(error) for error in handled.errors] == ["-2", "-4"]


def test_stop_finishes_the_current_event_and_drops_the_others() -> None:
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


def test_draining_stop_handles_queued_events(handled: Handled) -> None:
    handled.loop.start()
    handled.post(range(1000))
    handled.loop.stop(10, drain=True)
    handled.loop.post(1000)
    handled.loop.stop(10, drain=True)
    assert handled.events == list(range(1000))


def test_stop_can_be_repeated_and_later_events_are_ignored(handled: Handled) -> None:
    handled.loop.start()
    handled.loop.post(1)
    handled.await_count(1)
    handled.loop.stop()
    handled.loop.post(2)
    handled.loop.stop()
    assert handled.events == [1]


def test_handler_can_stop_its_own_loop() -> None:
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


def test_loop_cannot_be_started_twice(handled: Handled) -> None:
    handled.loop.start()
    with pytest.raises(StreamingStateError, match="test loop"):
        handled.loop.start()


def test_stopped_loop_cannot_be_started(handled: Handled) -> None:
    handled.loop.stop()
    with pytest.raises(StreamingStateError, match="test loop"):
        handled.loop.start()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def timed(clock: ManualClock) -> Iterator[Handled]:
    timed = Handled(clock)
    timed.loop.start()
    yield timed
    timed.loop.stop(1)


def test_delayed_event_is_handled_after_its_delay(timed: Handled, clock: ManualClock) -> None:
    timed.loop.post_later(100, 1)
    clock.await_waiters()
    clock.advance(99)
    clock.await_waiters()
    timed.loop.post(2)
    assert timed.await_count(1) == [2]
    clock.advance(1)
    assert timed.await_count(2) == [2, 1]
    assert {thread.name for thread in timed.threads} == {"test loop"}


def test_delayed_events_are_handled_in_order_of_due_times(timed: Handled, clock: ManualClock) -> None:
    for delay_ms in (300, 100, 200, 100):
        timed.loop.post_later(delay_ms, delay_ms)
    clock.await_waiters()
    clock.advance(300)
    assert timed.await_count(4) == [100, 100, 200, 300]


def test_shorter_delay_overtakes_a_longer_one_that_waits(timed: Handled, clock: ManualClock) -> None:
    timed.loop.post_later(1000, 1)
    clock.await_waiters()
    timed.loop.post_later(10, 2)
    timed.loop.post_later(0, 3)
    assert timed.await_count(1) == [3]
    clock.await_waiters()
    clock.advance(10)
    assert timed.await_count(2) == [3, 2]


def test_handler_can_delay_further_events(clock: ManualClock) -> None:
    handled: list[int] = []
    done = threading.Event()

    def handle(event: int) -> None:
        handled.append(event)
        if event < 3:
            loop.post_later(0, event + 1)
        else:
            done.set()

    loop: EventLoop[int] = EventLoop("test loop", handle, lambda _error: None, clock)
    loop.start()
    loop.post(1)
    assert done.wait(10)
    loop.stop(10)
    assert handled == [1, 2, 3]


@pytest.mark.parametrize("drain", [False, True])
def test_stop_drops_delayed_events_and_ends_the_thread(timed: Handled, clock: ManualClock, drain: bool) -> None:
    timed.loop.post_later(100, 1)
    clock.await_waiters()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "test loop"]
    timed.loop.stop(10, drain=drain)
    assert not thread.is_alive()
    timed.loop.post_later(0, 2)
    clock.advance(100)
    assert timed.events == []


def test_delay_passes_on_the_machines_clock_by_default(handled: Handled) -> None:
    handled.loop.start()
    handled.loop.post_later(1, 1)
    assert handled.await_count(1) == [1]
