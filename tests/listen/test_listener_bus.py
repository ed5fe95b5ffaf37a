"""``ListenerBus`` delivers every event to every listener, each independent of the others."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from penstock import BatchCompleted, ListenerCounts, StreamingListener, StreamingStarted
from penstock.errors import StreamingStateError
from penstock.listen.listener_bus import ListenerBus
from penstock.listen.registered_listener import register

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.listen.conftest import Listener

MakeBus = Callable[..., ListenerBus]
MakeListener = Callable[..., "Listener"]


def post(bus: ListenerBus, times: range) -> None:
    for time_ms in times:
        bus.post(StreamingStarted(time_ms))


def fail(_time: int) -> None:
    raise ValueError("a listener's error")


def test_every_listener_gets_every_event_in_order(bus: ListenerBus, make_listener: MakeListener) -> None:
    listeners = [make_listener() for _ in range(3)]
    for listener in listeners:
        bus.add(listener)
    post(bus, range(1000))
    for listener in listeners:
        assert listener.await_heard(1000) == list(range(1000))


def test_all_listeners_get_the_same_order_from_concurrent_posts(bus: ListenerBus, make_listener: MakeListener) -> None:
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
        assert [time_ms for time_ms in heard if first <= time_ms < first + 100] == list(range(first, first + 100))


def test_each_listener_runs_on_its_own_thread(bus: ListenerBus, make_listener: MakeListener) -> None:
    threads: list[threading.Thread] = []
    listeners = [make_listener(lambda _time: threads.append(threading.current_thread())) for _ in range(2)]
    for listener in listeners:
        bus.add(listener)
    post(bus, range(5))
    bus.stop(10)
    assert len(threads) == 10
    assert len(set(threads)) == 2
    assert threading.current_thread() not in threads


def test_listener_gets_only_events_that_it_has_a_callback_for(
    make_bus: MakeBus, make_listener: MakeListener, completed: BatchCompleted, caplog: pytest.LogCaptureFixture
) -> None:
    bus, listener = make_bus(queue_size=1), make_listener()
    bus.add(listener)
    for _ in range(10):
        bus.post(completed)
    post(bus, range(1))
    assert listener.await_heard(1) == [0]
    bus.stop(10)
    assert "events dropped" not in caplog.text


def test_object_without_callbacks_is_refused(bus: ListenerBus, caplog: pytest.LogCaptureFixture) -> None:
    class Notes:
        onBatchCompleted = "not a method"

    for nothing in (object(), None, 5, Notes()):
        with pytest.raises(TypeError, match="onStreamingStarted"):
            bus.add(nothing)
    post(bus, range(1))
    bus.stop(10)
    assert caplog.text == ""


def test_failing_listener_delays_no_other_and_gets_later_events(
    bus: ListenerBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    failing, fine = make_listener(lambda time: fail(time) if time % 2 else None), make_listener()
    bus.add(register(failing, "failing"))
    bus.add(register(fine, "fine"))
    post(bus, range(10))
    assert failing.await_heard(10) == fine.await_heard(10) == list(range(10))
    bus.stop(10)
    assert caplog.text.count("listener failed") == 1
    assert "listener=fine" not in caplog.text
    assert "disabled" not in caplog.text


def test_listener_is_disabled_after_consecutive_errors(
    make_bus: MakeBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    bus = make_bus(max_failures=3)
    failing, fine = make_listener(fail), make_listener()
    bus.add(register(failing, "failing"))
    bus.add(register(fine, "fine"))
    post(bus, range(10))
    assert fine.await_heard(10) == list(range(10))
    bus.stop(10)
    assert failing.heard == [0, 1, 2]
    (disabled,) = [record.getMessage() for record in caplog.records if "listener disabled" in record.getMessage()]
    assert "consecutive_failures=3 listener=failing" in disabled


def test_counts_say_what_became_of_the_events_of_each_listener(make_bus: MakeBus, make_listener: MakeListener) -> None:
    bus, working, failing = make_bus(max_failures=2), make_listener(), make_listener(fail)
    bus.add(register(working, "plugin (distribution 1)"))
    bus.add(register(failing, "plugin (distribution 1)"))
    post(bus, range(5))
    bus.stop(10)
    assert bus.counts() == [
        ListenerCounts("plugin (distribution 1)", 0, 0, False),
        ListenerCounts("plugin (distribution 1) #2", 0, 2, True),
    ]


@pytest.mark.parametrize("error", [SystemExit(1), BaseException("panic")], ids=["exit", "panic"])
def test_error_that_is_no_exception_counts_as_an_error(
    make_bus: MakeBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def leave(_time: int) -> None:
        raise error

    bus, listener = make_bus(max_failures=3), make_listener(leave)
    bus.add(register(listener, "leaver"))
    post(bus, range(5))
    bus.stop(10)
    assert listener.heard == [0, 1, 2]
    assert "consecutive_failures=3 listener=leaver" in caplog.text


def disabled(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The listeners that were reported as disabled."""
    matches = [re.search(r"listener disabled .* listener=(.*)", record.getMessage()) for record in caplog.records]
    return sorted(match[1] for match in matches if match)


def test_listeners_of_one_plugin_are_reported_separately(
    make_bus: MakeBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    bus = make_bus(max_failures=1)
    for on_event in (fail, lambda _time: None, fail):
        bus.add(register(make_listener(on_event), "one-plugin (dist 1.0)"))
    post(bus, range(5))
    bus.stop(10)
    assert disabled(caplog) == ["'one-plugin (dist 1.0) #3'", "'one-plugin (dist 1.0)'"]


def test_listener_added_after_a_removal_gets_a_new_label(
    make_bus: MakeBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    bus, listeners = make_bus(max_failures=1), [make_listener(fail) for _ in range(3)]
    bus.add(register(listeners[0], "plugin"))
    bus.add(register(listeners[1], "plugin"))
    bus.remove(listeners[0])
    bus.add(register(listeners[2], "plugin"))
    post(bus, range(1))
    bus.stop(10)
    assert disabled(caplog) == ["'plugin #2'", "'plugin #3'"]


def test_listener_without_origin_is_reported_by_its_class(
    make_bus: MakeBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    bus = make_bus(max_failures=1)
    bus.add(make_listener(fail))
    post(bus, range(1))
    bus.stop(10)
    (name,) = disabled(caplog)
    assert name.endswith("conftest.Listener")


def test_success_resets_the_count_of_consecutive_errors(
    make_bus: MakeBus, make_listener: MakeListener, caplog: pytest.LogCaptureFixture
) -> None:
    bus = make_bus(max_failures=3)
    failing = make_listener(lambda time: fail(time) if time % 3 else None)
    bus.add(register(failing, "failing"))
    post(bus, range(30))
    assert failing.await_heard(30) == list(range(30))
    bus.stop(10)
    assert "listener disabled" not in caplog.text


def test_slow_listener_drops_events_which_is_logged_and_a_fast_one_gets_all(
    make_bus: MakeBus, make_listener: MakeListener, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    bus = make_bus(queue_size=2)
    slow, fast = make_listener(gate), make_listener()
    bus.add(register(slow, "slow"))
    bus.add(register(fast, "fast"))
    bus.post(StreamingStarted(0))
    assert gate.reached.wait(10)
    for number in range(1, 10):
        bus.post(StreamingStarted(number))
        fast.await_heard(number + 1)
    assert fast.heard == list(range(10))
    gate.open()
    assert slow.await_heard(3) == [0, 1, 2]
    post(bus, range(10, 11))
    assert slow.await_heard(4) == [0, 1, 2, 10]
    # Once in ten minutes.
    (dropped,) = [record.getMessage() for record in caplog.records if "events dropped" in record.getMessage()]
    assert "dropped=1 key=spark.penstock.listener.queueSize listener=slow" in dropped


def test_post_never_blocks_on_a_listener(make_bus: MakeBus, make_listener: MakeListener, gate: Gate) -> None:
    bus = make_bus(queue_size=1)
    bus.add(make_listener(gate))
    posted = threading.Event()

    def post_all() -> None:
        post(bus, range(100))
        posted.set()

    threading.Thread(target=post_all, daemon=True).start()
    assert posted.wait(10)


def test_listener_with_never_drop_loses_no_event(
    make_bus: MakeBus, make_listener: MakeListener, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    bus, careful = make_bus(queue_size=2), make_listener(gate)
    careful.never_drop = True
    bus.add(register(careful, "careful"))
    post(bus, range(1000))
    gate.open()
    assert careful.await_heard(1000) == list(range(1000))
    assert "events dropped" not in caplog.text


def test_removed_listener_gets_queued_events_only(bus: ListenerBus, make_listener: MakeListener) -> None:
    leaving, staying = make_listener(), make_listener()
    bus.add(register(leaving, "leaving"))
    bus.add(register(staying, "staying"))
    post(bus, range(100))
    bus.remove(leaving)
    assert leaving.heard == list(range(100))
    post(bus, range(100, 200))
    assert staying.await_heard(200) == list(range(200))
    assert leaving.heard == list(range(100))


def test_removing_an_unknown_listener_is_ignored(bus: ListenerBus) -> None:
    bus.remove(object())


def test_listener_can_remove_itself(bus: ListenerBus, make_listener: MakeListener) -> None:
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


def test_events_posted_before_the_start_are_delivered_after_it(make_listener: MakeListener) -> None:
    bus, listener = ListenerBus(100, 3), make_listener()
    bus.add(listener)
    post(bus, range(3))
    assert listener.heard == []
    bus.start()
    assert listener.await_heard(3) == [0, 1, 2]
    bus.stop(10)


def test_listener_added_after_the_start_gets_later_events(bus: ListenerBus, make_listener: MakeListener) -> None:
    post(bus, range(3))
    late = make_listener()
    bus.add(late)
    post(bus, range(3, 5))
    assert late.await_heard(2) == [3, 4]


def test_stop_delivers_queued_events(bus: ListenerBus, make_listener: MakeListener, gate: Gate) -> None:
    listener = make_listener(gate)
    bus.add(listener)
    post(bus, range(500))
    assert gate.reached.wait(10)
    gate.open()
    bus.stop(10)
    assert listener.heard == list(range(500))


def test_stopped_bus_delivers_nothing_and_refuses_listeners(bus: ListenerBus, make_listener: MakeListener) -> None:
    listener = make_listener()
    bus.add(listener)
    bus.stop(10)
    post(bus, range(3))
    bus.stop(10)
    assert listener.heard == []
    with pytest.raises(StreamingStateError, match="stopped"):
        bus.add(make_listener())


@pytest.mark.parametrize("queue_size", [1, 1000])
def test_hanging_listener_delays_stop_no_longer_than_the_timeout(
    make_bus: MakeBus, make_listener: MakeListener, gate: Gate, queue_size: int
) -> None:
    bus, stuck, fine = make_bus(queue_size), make_listener(gate), make_listener()
    bus.add(register(stuck, f"stuck {queue_size}"))
    bus.add(register(fine, "fine"))
    for number in range(2):
        bus.post(StreamingStarted(number))
        fine.await_heard(number + 1)
        assert gate.reached.wait(10)
    before = time.monotonic()
    bus.stop(0.1)
    assert time.monotonic() - before < 20
    (thread,) = [thread for thread in threading.enumerate() if thread.name == f"listener stuck {queue_size}"]
    gate.open()
    # A full queue has no room for the end of the thread.
    if queue_size > 2:
        thread.join(10)
    assert (stuck.heard, fine.heard) == ([0], [0, 1])


def test_unstarted_bus_can_be_stopped(make_listener: MakeListener) -> None:
    bus = ListenerBus(10, 3)
    bus.add(make_listener())
    bus.stop(1)


def test_streaming_listener_reads_attributes_and_methods(bus: ListenerBus, completed: BatchCompleted) -> None:
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
