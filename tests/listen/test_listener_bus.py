"""``ListenerBus``: every event to every listener, none in another's way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from penstock import BatchCompleted, StreamingListener, StreamingStarted
from penstock.errors import StreamingStateError
from penstock.listen.listener_bus import ListenerBus

if TYPE_CHECKING:
    from tests.listen.conftest import Gate, Listener

MakeBus = Callable[..., ListenerBus]
MakeListener = Callable[..., "Listener"]


def post(bus: ListenerBus, times: range) -> None:
    for each in times:
        bus.post(StreamingStarted(each))


def fail(_time: int) -> None:
    raise ValueError("a listener's error")


def test_every_listener_hears_every_event_in_order(bus: ListenerBus, make_listener: MakeListener) -> None:
    listeners = [make_listener() for _ in range(3)]
    for listener in listeners:
        bus.add(listener)
    post(bus, range(1000))
    for listener in listeners:
        assert listener.await_heard(1000) == list(range(1000))


def test_all_listeners_hear_one_order_however_many_post(bus: ListenerBus, make_listener: MakeListener) -> None:
    one, other = make_listener(), make_listener()
    bus.add(one)
    bus.add(other)
    with ThreadPoolExecutor(8) as pool:
        for first in range(0, 800, 100):
            pool.submit(post, bus, range(first, first + 100))
    heard = one.await_heard(800)
    assert other.await_heard(800) == heard
    assert sorted(heard) == list(range(800))
    for first in range(0, 800, 100):
        assert [each for each in heard if first <= each < first + 100] == list(range(first, first + 100))


def test_each_listener_has_a_thread_of_its_own(bus: ListenerBus, make_listener: MakeListener) -> None:
    threads: list[threading.Thread] = []
    listeners = [make_listener(lambda _time: threads.append(threading.current_thread())) for _ in range(2)]
    for listener in listeners:
        bus.add(listener)
    post(bus, range(5))
    bus.stop(10)
    assert len(threads) == 10
    assert len(set(threads)) == 2
    assert threading.current_thread() not in threads


def test_a_listener_hears_only_what_it_has_a_method_for(
    make_bus: MakeBus, make_listener: MakeListener, completed: BatchCompleted
) -> None:
    bus, listener = make_bus(queue_size=1), make_listener()
    bus.add(listener)
    for _ in range(10):
        bus.post(completed)
    post(bus, range(1))
    assert listener.await_heard(1) == [0]
    bus.stop(10)
    (report,) = bus.report().values()
    assert report["dropped"] == 0


def test_what_is_no_listener_is_refused(bus: ListenerBus) -> None:
    class Notes:
        onBatchCompleted = "not a method"

    for nothing in (object(), None, 5, Notes()):
        with pytest.raises(TypeError, match="onStreamingStarted"):
            bus.add(nothing)
    assert bus.report() == {}


def test_a_listener_that_raises_stops_no_other_and_hears_on(
    bus: ListenerBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    failing, fine = make_listener(lambda time: fail(time) if time % 2 else None), make_listener()
    bus.add(failing, "failing")
    bus.add(fine, "fine")
    post(bus, range(10))
    assert failing.await_heard(10) == fine.await_heard(10) == list(range(10))
    bus.stop(10)
    assert bus.report()["failing"] == {"dropped": 0, "failed": 5, "disabled": False}
    assert bus.report()["fine"] == {"dropped": 0, "failed": 0, "disabled": False}
    assert caplog.text.count("listener failed") == 1


def test_a_listener_is_switched_off_after_so_many_errors_in_a_row(
    make_bus: MakeBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    bus = make_bus(max_failures=3)
    failing, fine = make_listener(fail), make_listener()
    bus.add(failing, "failing")
    bus.add(fine, "fine")
    post(bus, range(10))
    assert fine.await_heard(10) == list(range(10))
    bus.stop(10)
    assert failing.heard == [0, 1, 2]
    assert bus.report()["failing"] == {"dropped": 0, "failed": 3, "disabled": True}
    assert "listener disabled" in caplog.text


def test_errors_that_are_not_in_a_row_switch_nothing_off(make_bus: MakeBus, make_listener: MakeListener) -> None:
    bus = make_bus(max_failures=3)
    failing = make_listener(lambda time: fail(time) if time % 3 else None)
    bus.add(failing, "failing")
    post(bus, range(30))
    assert failing.await_heard(30) == list(range(30))
    bus.stop(10)
    assert bus.report()["failing"] == {"dropped": 0, "failed": 20, "disabled": False}


def test_a_slow_listener_loses_and_counts_what_does_not_fit_and_a_fast_one_hears_all(
    make_bus: MakeBus, make_listener: MakeListener, gate: Gate
) -> None:
    bus = make_bus(queue_size=2)
    slow, fast = make_listener(gate), make_listener()
    bus.add(slow, "slow")
    bus.add(fast, "fast")
    bus.post(StreamingStarted(0))
    assert gate.reached.wait(10)
    for each in range(1, 10):
        bus.post(StreamingStarted(each))
        fast.await_heard(each + 1)
    assert fast.heard == list(range(10))
    assert bus.report()["slow"]["dropped"] == 7
    gate.open()
    assert slow.await_heard(3) == [0, 1, 2]
    post(bus, range(10, 11))
    assert slow.await_heard(4) == [0, 1, 2, 10]
    assert bus.report()["fast"]["dropped"] == 0


def test_posting_never_waits_for_a_listener(make_bus: MakeBus, make_listener: MakeListener, gate: Gate) -> None:
    bus = make_bus(queue_size=1)
    bus.add(make_listener(gate))
    posted = threading.Event()

    def post_all() -> None:
        post(bus, range(100))
        posted.set()

    threading.Thread(target=post_all, daemon=True).start()
    assert posted.wait(10)


def test_a_listener_that_must_not_lose_anything_loses_nothing(
    make_bus: MakeBus, make_listener: MakeListener, gate: Gate
) -> None:
    bus, careful = make_bus(queue_size=2), make_listener(gate)
    careful.never_drop = True
    bus.add(careful, "careful")
    post(bus, range(1000))
    gate.open()
    assert careful.await_heard(1000) == list(range(1000))
    assert bus.report()["careful"]["dropped"] == 0


def test_a_removed_listener_hears_what_was_posted_and_nothing_more(
    bus: ListenerBus, make_listener: MakeListener
) -> None:
    leaving, staying = make_listener(), make_listener()
    bus.add(leaving, "leaving")
    bus.add(staying, "staying")
    post(bus, range(100))
    bus.remove(leaving)
    assert leaving.heard == list(range(100))
    post(bus, range(100, 200))
    assert staying.await_heard(200) == list(range(200))
    assert leaving.heard == list(range(100))
    assert list(bus.report()) == ["staying"]


def test_removing_one_that_is_not_there_is_harmless(bus: ListenerBus) -> None:
    bus.remove(object())


def test_a_listener_can_remove_itself(bus: ListenerBus, make_listener: MakeListener) -> None:
    staying = make_listener()
    leaving: Listener = make_listener(lambda _time: bus.remove(leaving))
    bus.add(leaving)
    bus.add(staying)
    post(bus, range(1))
    leaving.await_heard(1)
    bus.remove(leaving)
    post(bus, range(1, 5))
    assert staying.await_heard(5) == list(range(5))
    bus.stop(10)
    assert leaving.heard == [0]


def test_events_from_before_the_start_wait_for_it(make_listener: MakeListener) -> None:
    bus, listener = ListenerBus(100, 3), make_listener()
    bus.add(listener)
    post(bus, range(3))
    assert listener.heard == []
    bus.start()
    assert listener.await_heard(3) == [0, 1, 2]
    bus.stop(10)


def test_a_listener_that_comes_late_hears_what_follows(bus: ListenerBus, make_listener: MakeListener) -> None:
    post(bus, range(3))
    late = make_listener()
    bus.add(late)
    post(bus, range(3, 5))
    assert late.await_heard(2) == [3, 4]


def test_stop_delivers_what_waits(bus: ListenerBus, make_listener: MakeListener, gate: Gate) -> None:
    listener = make_listener(gate)
    bus.add(listener)
    post(bus, range(500))
    assert gate.reached.wait(10)
    gate.open()
    bus.stop(10)
    assert listener.heard == list(range(500))


def test_after_stop_nothing_is_delivered_and_nobody_is_added(bus: ListenerBus, make_listener: MakeListener) -> None:
    listener = make_listener()
    bus.add(listener)
    bus.stop(10)
    post(bus, range(3))
    bus.stop(10)
    assert listener.heard == []
    with pytest.raises(StreamingStateError, match="stopped"):
        bus.add(make_listener())


@pytest.mark.parametrize("queue_size", [1, 1000])
def test_a_listener_that_hangs_does_not_hold_up_stop_beyond_its_time_out(
    make_bus: MakeBus, make_listener: MakeListener, gate: Gate, queue_size: int
) -> None:
    bus, stuck, fine = make_bus(queue_size), make_listener(gate), make_listener()
    bus.add(stuck, "stuck")
    bus.add(fine, "fine")
    for each in range(2):
        bus.post(StreamingStarted(each))
        fine.await_heard(each + 1)
        assert gate.reached.wait(10)
    before = time.monotonic()
    bus.stop(0.1)
    assert time.monotonic() - before < 5
    assert bus.report()["stuck"]["disabled"]
    assert stuck.heard == [0]


def test_a_bus_that_never_started_can_be_stopped(make_listener: MakeListener) -> None:
    bus = ListenerBus(10, 3)
    bus.add(make_listener())
    bus.stop(1)


def test_a_streaming_listener_gets_the_event_in_both_ways(bus: ListenerBus, completed: BatchCompleted) -> None:
    seen: list[Any] = []
    heard = threading.Event()

    class Mine(StreamingListener):
        def onBatchCompleted(self, batchCompleted: Any) -> None:
            seen.append((batchCompleted.batchInfo.batchTime, batchCompleted.batchInfo().batchTime().milliseconds()))
            heard.set()

    bus.add(Mine())
    bus.post(completed)
    assert heard.wait(10)
    assert seen == [(1000, 1000)]


def test_the_report_names_a_listener_by_its_class_when_nobody_says_whose_it_is(
    bus: ListenerBus, make_listener: MakeListener
) -> None:
    bus.add(make_listener())
    (name,) = bus.report()
    assert name.endswith("conftest.Listener")
