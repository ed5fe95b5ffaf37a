"""``ListenerSubject``, the argument of a listener check: makes listeners, and delivers events as the bus does."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from penstock import StopProgress
from penstock.spi import HOOK_OF, Event, register
from penstock_testing.check import CheckFailure, NotApplicable, fail, fail_raised
from penstock_testing.event_runs import PHASES, START_MS, listener_events
from penstock_testing.fake_listener_context import FakeListenerContext
from penstock_testing.listener_probe import Backend, ListenerProbe
from penstock_testing.subject import Subject

#: The limit of the median time in seconds that a callback takes for one event.
BUDGET_S = 0.005
# A callback that takes longer fails every check, so that the others need not wait for it.
_MOST_S = 2.0


def kind_of(event: object) -> type:
    """The class of an event for which listeners have callbacks, also for a subclass that a later version may add."""
    return next(kind for kind in type(event).__mro__ if kind in HOOK_OF)


def hook_of(event: object) -> str:
    """The name of an event's callback."""
    return HOOK_OF[kind_of(event)]


class RunningListener:
    """Listeners with their context. Delivers events one at a time, to PySpark-style listeners as views.

    Args:
        subject: the subject of the running check.
        context: the context that ``make`` got.
        probe: the listeners.

    Attributes:
        delivered: the number of delivered events for which a listener has a callback.
        seconds: the durations of the callbacks, by hook.
        initial_commands: the number of commands that the listeners gave to the context while they were made.
    """

    def __init__(self, subject: ListenerSubject, context: FakeListenerContext, probe: ListenerProbe) -> None:
        self._subject = subject
        self.context = context
        self.probe = probe
        self.delivered = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.initial_commands = len(context.commands)
        self._has_stopped = False

    def deliver(self, events: Iterable[Event]) -> None:
        """Deliver events."""
        for event in events:
            self.context.observe(event)
            self._has_stopped = isinstance(event, StopProgress) and event.phase == PHASES[-1]
            for target in self.probe.listeners:
                callback = register(target).callbacks.get(kind_of(event))
                if callback is None:
                    continue
                self.delivered += 1
                began = time.monotonic()
                try:
                    callback(event)
                except (Exception, SystemExit) as error:
                    what = f"{type(target).__name__}.{hook_of(event)}"
                    fail_raised(what, error, f"{event!r}, after {self.delivered - 1} events")
                took_s = time.monotonic() - began
                self.seconds[hook_of(event)].append(took_s)
                if took_s > self._subject.deadline_s(_MOST_S):
                    fail(
                        f"{type(target).__name__}.{hook_of(event)} took {took_s:.1f} s for one event",
                        f"{event!r}"[:200],
                        "return at once, and let a thread do what takes time",
                    )

    def stop(self) -> None:
        """Deliver the last event of a stop, unless it was the last delivered."""
        if not self._has_stopped:
            with suppress(CheckFailure):
                self.deliver([StopProgress(START_MS, PHASES[-1], 0)])

    def commands(self) -> list[tuple[Any, ...]]:
        """The context's commands since the listeners were made."""
        return self.context.commands[self.initial_commands :]

    def snapshot(self) -> Mapping[str, Any]:
        """The snapshot of the probe; empty when the suite has none."""
        return {} if self.probe.snapshot is None else self.probe.snapshot()

    def settle(self, timeout_s: float = 5.0) -> None:
        """Wait until a listener with a queue of its own has handled or dropped every delivered event."""
        if not self._subject.capabilities.queues:
            return

        def handled() -> bool:
            snapshot = self.snapshot()
            return bool(snapshot.get("handled", 0) + snapshot.get("dropped", 0) == self.delivered)

        self._subject.until(
            handled,
            lambda: (
                f"the listener got {self.delivered} events, and its snapshot shows "
                f"{self.snapshot().get('handled')} handled and {self.snapshot().get('dropped')} dropped"
            ),
            timeout_s,
        )

    def slowest(self) -> tuple[str, float]:
        """The hook with the longest median time, and this time."""
        medians = {hook: median(times) for hook, times in self.seconds.items()}
        return max(medians.items(), key=lambda item: item[1])


class ListenerSubject(Subject):
    """The listeners under test."""

    def context(self, streams: Sequence[int] = (0, 1)) -> FakeListenerContext:
        """A new context with the suite's configuration."""
        return FakeListenerContext(self.suite.conf, streams=streams)

    def start(self, context: FakeListenerContext | None = None) -> RunningListener:
        """Make listeners with a context."""
        context = context or self.context()
        try:
            listener = self.instance(context)
        except Exception as error:
            fail_raised("make", error)
        probe = listener if isinstance(listener, ListenerProbe) else ListenerProbe(listener)
        if probe.backend is not None:
            self.on_close(probe.backend.close)
        if not probe.listeners:
            fail("make returned no listener", change="set conf to a configuration with which the plugin offers one")
        for target in probe.listeners:
            try:
                register(target)
            except TypeError:
                fail(f"the listener {type(target).__name__} has none of the callbacks {', '.join(HOOK_OF.values())}")
        running = RunningListener(self, context, probe)
        self.on_close(running.stop)
        return running

    def events(self, **arguments: Any) -> list[Event]:
        """A run of events; see ``listener_events``."""
        return listener_events(self.rng, **arguments)

    def backend(self, running: RunningListener) -> Backend:
        """The backend that the listeners export to."""
        if running.probe.backend is None:
            raise NotApplicable("make returns no ListenerProbe with a backend")
        return running.probe.backend
