"""``ListenerBus.report`` has the counts of every listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import StreamingStarted
from penstock.listen.listener_bus import ListenerBus

if TYPE_CHECKING:
    from tests.listen.conftest import Listener


def fail(_time: int) -> None:
    raise ValueError("a listener's error")


def test_two_listeners_of_one_plugin_are_reported_separately(
    make_bus: Callable[..., ListenerBus], make_listener: Callable[..., Listener]
) -> None:
    bus = make_bus(max_failures=3)
    for on_event in (fail, lambda _time: None):
        bus.add(make_listener(on_event), "one-plugin (dist 1.0)")
    for each in range(5):
        bus.post(StreamingStarted(each))
    bus.stop(10)
    report = bus.report()
    assert len(report) == 2
    assert sorted(counts["failed"] for counts in report.values()) == [0, 3]


def test_system_exit_counts_as_a_failure(
    make_bus: Callable[..., ListenerBus], make_listener: Callable[..., Listener]
) -> None:
    def leave(_time: int) -> None:
        raise SystemExit(1)

    bus, listener = make_bus(max_failures=3), make_listener(leave)
    bus.add(listener, "leaver")
    for each in range(5):
        bus.post(StreamingStarted(each))
    bus.stop(10)
    assert listener.heard == [0, 1, 2]
    assert bus.report()["leaver"] == {"dropped": 0, "failed": 3, "disabled": True}


def test_listener_added_after_a_removal_gets_a_new_label(
    make_bus: Callable[..., ListenerBus], make_listener: Callable[..., Listener]
) -> None:
    bus, listeners = make_bus(), [make_listener() for _ in range(3)]
    bus.add(listeners[0], "one-plugin (dist 1.0)")
    bus.add(listeners[1], "one-plugin (dist 1.0)")
    bus.remove(listeners[0])
    bus.add(listeners[2], "one-plugin (dist 1.0)")
    assert len(bus.report()) == 2
