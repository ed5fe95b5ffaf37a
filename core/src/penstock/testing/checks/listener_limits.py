"""Listener checks LI-07, LI-09, LI-10, LI-12, LI-14 and LI-15: time, memory, ports, and what remains after a stop."""

from __future__ import annotations

import gc
import os
import socket
import struct
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from penstock.listen.events import BatchCompleted, BatchInfo, Event, StreamInputInfo
from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.event_runs import START_MS, totals_of
from penstock.testing.listener_kit import BUDGET_S, ListenerKit, RunningListener

#: Batches that a listener may hold for a backend that is down: more than an hour of one-second batches.
_MOST_WAITING = 4096
#: Blocks of memory that as many batches more may take once that many wait: an unbounded queue takes at least one each.
_MOST_GROWTH = _MOST_WAITING // 4


@check("LI-07", "must", change="hand work that can wait to a thread of the listener's own, with a bounded queue")
def slow_is_not_fatal(kit: ListenerKit) -> None:
    """A callback returns quickly; what a queue of the listener's own does not hold is dropped and counted.

    Purpose: the bus drops a slow listener's events, and waits for it when the program stops.
    Method: delivers a run of 15 batches and times each callback. A listener with a queue of its own gets 2,000 batches
        more as fast as it takes them.
    Condition: the median time of each callback is at most 5 ms: at an interval of 50 ms a batch has 8 events. Of a
        queue, handled and dropped events together are those delivered.
    Requires: nothing; the second part queues.
    """
    running = kit.start()
    running.deliver(kit.events(batches=15, stops=False))
    _check_budget(kit, running)
    if not kit.capabilities.queues:
        return
    shown = running.snapshot()
    if not {"handled", "dropped"} <= shown.keys():
        fail(
            f"Capabilities.queues is set, but the snapshot shows {sorted(shown)}",
            change="show handled and dropped events in the snapshot of a ListenerProbe",
        )
    running.settle()
    batches = [event for event in kit.events(batches=20, stops=False) if isinstance(event, BatchCompleted)]
    for _ in range(100):
        running.deliver(batches)
    running.settle()


def _check_budget(kit: ListenerKit, running: RunningListener) -> None:
    hook, seconds = running.slowest()
    if seconds > kit.deadline_s(BUDGET_S):
        fail(f"{hook} takes {seconds * 1000:.3g} ms, permitted are {BUDGET_S * 1000:g} ms", "a run of batches")


@check("LI-09", "must", change="flush in onStopProgress, in the phase listeners: it is the last event")
def flushes_on_stop(kit: ListenerKit) -> None:
    """When the last event of a stop has been handled, nothing waits any more.

    Purpose: the process ends then, and with it whatever a listener still holds.
    Method: delivers a run of 20 batches with its stop, without waiting between events.
    Condition: right after the last callback the snapshot shows all events as handled, and its totals are complete;
        the backend has all batches within 2 s, for those in transit.
    Requires: queues or exports.
    """
    if not (kit.capabilities.queues or kit.capabilities.exports):
        raise NotApplicable("neither Capabilities.queues nor Capabilities.exports is set")
    running = kit.start()
    events = kit.events()
    running.deliver(events)
    shown, totals = running.snapshot(), totals_of(events)
    handled = shown.get("handled", running.delivered)
    if handled != running.delivered:
        fail(f"{running.delivered} events were delivered, {handled} are handled", "a run of 20 batches with its stop")
    for name in ("batches", "failed_batches", "records", "receiver_errors"):
        if shown.get(name, totals[name]) != totals[name]:
            fail(f"{name} is {shown[name]}, the events say {totals[name]}", "a run of 20 batches with its stop")
    if kit.capabilities.exports:
        backend = kit.backend(running)
        kit.until(
            lambda: backend.received() == totals["batches"],
            lambda: f"the backend has {backend.received()} of {totals['batches']} batches",
            2,
        )


@check("LI-10", "must", change="close what was opened, and end threads, in onStopProgress, in the phase listeners")
def nothing_left_behind(kit: ListenerKit) -> None:
    """After a stop a listener leaves no thread, descriptor or temporary file behind.

    Purpose: a program may start and stop many contexts.
    Method: delivers a run of 5 batches with its stop, forgets the listener, compares with the state before.
    Condition: threads, descriptors and temporary files are as before.
    Requires: nothing.
    """
    kit.start().deliver(kit.events(batches=5))
    kit.close()
    gc.collect()
    if leaks := kit.leak_meter.leaks(kit.deadline_s(3)):
        fail("; ".join(leaks), "a run of 5 batches with its stop")


@check("LI-12", "should", change="label by stream, phase or outcome; never by batch time, error text or block")
def labels_are_bounded(kit: ListenerKit) -> None:
    """The number of metric series does not grow with time.

    Purpose: each series costs memory in the listener and in the system that scrapes it, for ever.
    Method: delivers 40 batches, in which each event and failure occurs, then 160 more with other times and texts.
    Condition: ``series`` in the snapshot is the same after both.
    Requires: nothing; not applicable without ``series`` in the snapshot.
    """
    running = kit.start()
    running.deliver(kit.events(batches=40, stops=False))
    running.settle()
    if "series" not in running.snapshot():
        raise NotApplicable("make returns no ListenerProbe with series in its snapshot")
    before = running.snapshot()["series"]
    running.deliver(kit.events(batches=160, first_batch=41, stops=False))
    running.settle()
    if (after := running.snapshot()["series"]) > before:
        fail(f"{before} series after 40 batches, {after} after 200", "200 batches")


@check("LI-14", "must", change="bind to 127.0.0.1 unless an option says otherwise, and declare serves")
def binds_to_loopback_by_default(kit: ListenerKit) -> None:
    """A port that a listener opens can be reached from this host only, unless configured otherwise.

    Purpose: a dashboard shows data and host names; on a public address it shows them to everybody.
    Method: makes the listener with the suite's configuration, delivers the first events of a run, and reads which
        ports this process listens on.
    Condition: there is a new one, and every new one is bound to a loopback address.
    Requires: serves; without it, that there is no new one.
    """
    if not Path("/proc/net/tcp").exists():
        raise NotApplicable("this system has no /proc/net/tcp")
    before = set(_listening())
    running = kit.start()
    running.deliver(kit.events(batches=2, stops=False)[:6])
    opened = {key: where for key, where in _listening().items() if key not in before}
    if not kit.capabilities.serves:
        # A backend of the test listens in this process, too.
        if opened and running.probe.backend is None:
            fail(f"it listens on {', '.join(opened.values())}, but Capabilities.serves is not set")
        raise NotApplicable("Capabilities.serves is not set")
    if not opened:
        fail("Capabilities.serves is set, but it listens on no port", "the first events of a run")
    public = [where for where in opened.values() if not ip_address(where.rpartition(":")[0]).is_loopback]
    if public:
        fail(f"it listens on {', '.join(public)}", "the default configuration")


def _listening() -> dict[str, str]:
    """The sockets that this process listens on: inode → address and port."""
    own = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            own.add(os.readlink(entry))  # noqa: PTH115  # text such as "socket:[123]", no path
        except OSError:
            continue  # closed meanwhile
    found = {}
    for family, table in ((socket.AF_INET, "/proc/net/tcp"), (socket.AF_INET6, "/proc/net/tcp6")):
        lines = Path(table).read_text().splitlines()[1:] if Path(table).exists() else []
        for fields in (line.split() for line in lines):
            address, state, inode = fields[1], fields[3], fields[9]
            if state == "0A" and f"socket:[{inode}]" in own:
                host, _, port = address.partition(":")
                words = struct.unpack(f">{len(host) // 8}I", bytes.fromhex(host))
                packed = struct.pack(f"={len(words)}I", *words)
                found[inode] = f"{socket.inet_ntop(family, packed)}:{int(port, 16)}"
    return found


@check("LI-15", "must", requires="exports", change="bound what waits for the backend, count what is dropped, reconnect")
def backend_down_is_survived(kit: ListenerKit) -> None:
    """While the backend is down callbacks stay quick and memory stays bounded; afterwards exporting resumes.

    Purpose: a monitoring system that is down must not take the program with it.
    Method: cuts the backend, delivers twice 4,096 batches (an hour of one-second batches each) and measures the
        memory that the second half takes; heals it and delivers batches until one arrives.
    Condition: nothing raises; the median time of each callback is at most 5 ms; the second half takes at most 1,024
        blocks of memory (``sys.getallocatedblocks``), where holding a batch takes at least one; a batch arrives within
        10 s.
    Requires: exports; not applicable without a backend.
    """
    running = kit.start()
    backend = kit.backend(running)
    running.deliver(_batches(kit, 5))
    kit.until(lambda: backend.received() > 0, "Capabilities.exports is set, but the backend receives nothing")
    backend.cut()
    held = []
    for half in range(2):
        running.deliver(_batches(kit, _MOST_WAITING, 10 + _MOST_WAITING * half))
        running.settle()
        for times in running.seconds.values():
            del times[:-1000]
        gc.collect()
        held.append(sys.getallocatedblocks())
    _check_budget(kit, running)
    if (growth := held[1] - held[0]) > _MOST_GROWTH:
        fail(
            f"{_MOST_WAITING} batches more take {growth} blocks of memory",
            f"{2 * _MOST_WAITING} batches without a backend",
        )
    backend.heal()
    before = backend.received()

    def arrives() -> bool:
        running.deliver(_batches(kit, 1, 10_000))
        return backend.received() > before

    if not kit.becomes(arrives, 10):
        fail("no batch arrives after the backend is back", "a backend that was down")


def _batches(kit: ListenerKit, count: int, first: int = 1) -> Iterator[Event]:
    """Completed batches, made as they are needed: a list of them would hold their memory."""
    for number in range(first, first + count):
        time = START_MS + number * 1000
        inputs = {0: StreamInputInfo(0, kit.rng.randrange(1, 2000))}
        yield BatchCompleted(BatchInfo(time, inputs, time + 1, time + 5, time + 5 + kit.rng.randrange(1, 900), {}))
