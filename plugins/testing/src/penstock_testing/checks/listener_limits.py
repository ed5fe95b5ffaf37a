"""Listener checks LI-07, LI-09, LI-10, LI-12, LI-14 and LI-15: time, memory, ports, and resources after a stop."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from ipaddress import ip_address

import psutil

from penstock import BatchCompleted, BatchInfo, StreamInputInfo
from penstock.spi import Event
from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.event_runs import START_MS, totals_of
from penstock_testing.leaks import MOST_GROWTH, memory_growth
from penstock_testing.listener_subject import BUDGET_S, ListenerSubject, RunningListener

#: The number of batches that a listener may hold during an outage of its backend: an hour of one-second batches.
_MOST_WAITING = 4096
# How many more programs measure callbacks that exceed their budget.
_MORE_PROGRAMS = 8
# Batches to fill windows and caches, and again to measure.
_MEMORY_BATCHES = 2000
#: The limit of memory blocks for the next 4,096 batches. An unbounded queue takes at least one block for each batch.
_MOST_GROWTH = _MOST_WAITING // 4


class ListenerLimitsChecks:
    """The checks of this module, as test methods."""

    @check("LI-07", "must", limit_s=60, change="hand slow work to a thread of the listener, through a bounded queue")
    def test_LI_07_slow_is_not_fatal(self, subject: ListenerSubject) -> None:
        """A callback returns quickly; a listener with a full queue drops events and counts them.

        Purpose: the bus drops a slow listener's events, and waits for it when the program stops.
        Condition: the median time of each callback is at most 5 ms, since a batch of 50 ms has 8 events. The numbers of
            handled and dropped events add up to the number delivered. The last 2,000 batches add at most 16 bytes each.
        """
        running = subject.start()
        running.deliver(subject.events(batches=15, stops=False))
        # Some callbacks are called once by a program. A slow one is slow in each; any is slow when the machine is busy.
        for _ in range(_MORE_PROGRAMS):
            if running.slowest()[1] <= subject.deadline_s(BUDGET_S):
                break
            again = subject.start()
            again.deliver(subject.events(batches=15, stops=False))
            for hook, times in again.seconds.items():
                running.seconds[hook] += times
        _check_budget(subject, running)
        if subject.capabilities.queues:
            _check_queue(subject, running)
        _check_memory(subject)

    @check("LI-09", "must", change="flush in onStopProgress in the phase listeners, which is the last event")
    def test_LI_09_flushes_on_stop(self, subject: ListenerSubject) -> None:
        """A listener has handled and exported everything when its last callback returns.

        Purpose: the process may end then, and queued events would be lost.
        Condition: right after the last callback the snapshot shows all events as handled, and its totals are complete.
            The backend has all batches within 2 s, the time for those in transit.
        """
        if not (subject.capabilities.queues or subject.capabilities.exports):
            raise NotApplicable("neither Capabilities.queues nor Capabilities.exports is set")
        running = subject.start()
        events = subject.events()
        running.deliver(events)
        snapshot, totals = running.snapshot(), totals_of(events)
        handled = snapshot.get("handled", running.delivered)
        if handled != running.delivered:
            fail(
                f"when its last callback returned, the listener had handled {handled} of {running.delivered} events",
                "a run of 20 batches with its stop",
            )
        for name in ("batches", "failed_batches", "records", "receiver_errors"):
            if snapshot.get(name, totals[name]) != totals[name]:
                fail(
                    f"after the stop the snapshot's {name} is {snapshot[name]}, "
                    f"and that of the events is {totals[name]}",
                    "a run of 20 batches with its stop",
                )
        if subject.capabilities.exports:
            backend = subject.backend(running)
            subject.until(
                lambda: backend.received() == totals["batches"],
                lambda: f"after the stop the backend has {backend.received()} of {totals['batches']} batches",
                2,
            )

    @check("LI-10", "must", change="close files and sockets, and end threads, in onStopProgress in the phase listeners")
    def test_LI_10_nothing_left_behind(self, subject: ListenerSubject) -> None:
        """A stopped listener has released its threads, descriptors and temporary files, and changed nothing else.

        Purpose: a program may start and stop many contexts. Its global state and its standard output are its own.
        Condition: threads, descriptors, temporary files and the global state are the same as before, and nothing was
            printed.
        """
        subject.start().deliver(subject.events(batches=5))
        subject.close()
        gc.collect()
        if leaks := subject.leaks(3):
            fail("; ".join(leaks), "a run of 5 batches with its stop")

    @check("LI-12", "should", change="label by stream, phase or outcome; never by batch time, error text or block")
    def test_LI_12_labels_are_bounded(self, subject: ListenerSubject) -> None:
        """The number of metric series does not grow with time.

        Purpose: each series takes memory in the listener and in the system that scrapes it, for ever.
        Condition: ``series`` in the snapshot does not grow after the first 40 batches.
        """
        running = subject.start()
        running.deliver(subject.events(batches=40, stops=False))
        running.settle()
        if "series" not in running.snapshot():
            raise NotApplicable("make returns no ListenerProbe with series in its snapshot")
        before = running.snapshot()["series"]
        running.deliver(subject.events(batches=160, first_batch=41, stops=False))
        running.settle()
        if (after := running.snapshot()["series"]) > before:
            fail(f"the listener has {before} metric series after 40 batches, and {after} after 200", "200 batches")

    @check("LI-14", "must", change="bind to 127.0.0.1 by default, and set Capabilities.serves")
    def test_LI_14_binds_to_loopback_by_default(self, subject: ListenerSubject) -> None:
        """Only this host can reach a listener's port, unless configured otherwise.

        Purpose: a dashboard shows data and host names, and on a public address everybody can read them.
        Condition: there is a new port, and every new port is bound to a loopback address.
        """
        before = set(_listening())
        running = subject.start()
        running.deliver(subject.events(batches=2, stops=False)[:6])
        opened = {key: where for key, where in _listening().items() if key not in before}
        if not subject.capabilities.serves:
            # The test's backend may listen in this process, too.
            if opened and running.probe.backend is None:
                fail(f"the listener listens on {', '.join(opened.values())}, but Capabilities.serves is not set")
            raise NotApplicable("Capabilities.serves is not set")
        if not opened:
            fail("Capabilities.serves is set, but the listener opened no port", "the first events of a run")
        public = [where for where in opened.values() if not ip_address(where.rpartition(":")[0]).is_loopback]
        if public:
            fail(f"by default the listener listens on {', '.join(public)}", "the default configuration")

    @check(
        "LI-15",
        "must",
        requires="exports",
        limit_s=60,
        change="queue exports in a bounded queue, count dropped ones, and reconnect",
    )
    def test_LI_15_backend_down_is_survived(self, subject: ListenerSubject) -> None:
        """During an outage of the backend callbacks stay fast and memory stays bounded; exports resume afterwards.

        Purpose: an outage of a monitoring system must not stop the program.
        Condition: nothing raises, and the median time of each callback is at most 5 ms. The second half takes at most
            1,024 blocks of memory (``sys.getallocatedblocks``); a queued batch takes at least one. A batch arrives
            within 10 s.
        """
        running = subject.start()
        backend = subject.backend(running)
        running.deliver(_batches(subject, 5))
        subject.until(lambda: backend.received() > 0, "Capabilities.exports is set, but the backend receives nothing")
        backend.cut()
        held = []
        for half in range(2):
            running.deliver(_batches(subject, _MOST_WAITING, 10 + _MOST_WAITING * half))
            running.settle()
            for times in running.seconds.values():
                del times[:-1000]
            gc.collect()
            held.append(sys.getallocatedblocks())
        _check_budget(subject, running)
        if (growth := held[1] - held[0]) > _MOST_GROWTH:
            fail(
                f"during an outage of the backend {_MOST_WAITING} more batches take {growth} blocks of memory, and "
                f"{_MOST_GROWTH} are permitted",
                f"{2 * _MOST_WAITING} batches without a backend",
            )
        backend.heal()
        before = backend.received()

        def arrives() -> bool:
            running.deliver(_batches(subject, 1, 10_000))
            return backend.received() > before

        if not subject.becomes(arrives, 10):
            fail("no batch arrives at the backend after its outage", "an outage of the backend")


def _check_queue(subject: ListenerSubject, running: RunningListener) -> None:
    snapshot = running.snapshot()
    if not {"handled", "dropped"} <= snapshot.keys():
        fail(
            f"Capabilities.queues is set, but the snapshot has only {sorted(snapshot)}",
            change="return handled and dropped, numbers of events, in the snapshot of a ListenerProbe",
        )
    running.settle()
    batches = [event for event in subject.events(batches=20, stops=False) if isinstance(event, BatchCompleted)]
    for _ in range(100):
        running.deliver(batches)
    running.settle()


def _check_memory(subject: ListenerSubject) -> None:
    running = subject.start()

    def deliver(first: int) -> None:
        running.deliver(_batches(subject, _MEMORY_BATCHES, first))
        running.settle()
        # The kit's own records of the run.
        running.seconds.clear()
        running.context.commands.clear()

    growth = memory_growth(lambda: deliver(1), lambda: deliver(1 + _MEMORY_BATCHES), MOST_GROWTH)
    if growth > MOST_GROWTH:
        fail(
            f"{_MEMORY_BATCHES} batches add {growth} bytes of memory, and {MOST_GROWTH} are permitted",
            f"{2 * _MEMORY_BATCHES} completed batches",
            "keep totals, or a limited number of the last batches",
        )


def _check_budget(subject: ListenerSubject, running: RunningListener) -> None:
    hook, seconds = running.slowest()
    if seconds > subject.deadline_s(BUDGET_S):
        fail(
            f"the callback {hook} takes {seconds * 1000:.3g} ms, and {BUDGET_S * 1000:g} ms are permitted",
            "a run of batches",
        )


def _listening() -> dict[int, str]:
    """The sockets that this process listens on: descriptor → address and port."""
    sockets = psutil.Process().net_connections(kind="tcp")
    return {own.fd: f"{own.laddr.ip}:{own.laddr.port}" for own in sockets if own.status == psutil.CONN_LISTEN}


def _batches(subject: ListenerSubject, count: int, first: int = 1) -> Iterator[Event]:
    """Completed batches, generated one by one: a list would hold their memory."""
    for number in range(first, first + count):
        time = START_MS + number * 1000
        inputs = {0: StreamInputInfo(0, subject.rng.randrange(1, 2000))}
        yield BatchCompleted(BatchInfo(time, inputs, time + 1, time + 5, time + 5 + subject.rng.randrange(1, 900), {}))
