"""Whether receivers exceed their rate limits: ``python -m benchmarks.limits``.

Simulated: the rate limiters of 900 receivers on clocks of their own, with limits from 1 to 10,000 records/s that
change every few seconds. Live: a receiver of each broker beside its server, with a backlog, under limits that change
twice; all of them run at once. A table has the window of ten seconds that came closest to its limit. The limit of a
window is the sum of rate x time in it, and the burst allowance of its highest rate.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import frozen

from benchmarks.faults.sources import SOURCES
from penstock import Block, ReceiverHost
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import Clock
from penstock.spi import Plugins, Settings

_WINDOW_S = 10.0
# The burst allowance of simulated receivers, and the default of live ones: the block interval.
_BURST_S = 0.2
_CHUNK = 500
#: The limits of live receivers in records/s: each holds for the same time.
_LIMITS = (100.0, 25.0, 200.0)


@frozen
class Window:
    """The records stored in ten seconds from a time on, in seconds, and the number that the limits permit."""

    start_s: float
    records: int
    permitted: float

    @property
    def part(self) -> float:
        """The part of the limit that is used; above 1 it is exceeded."""
        return self.records / self.permitted

    @property
    def is_exceeded(self) -> bool:
        """Whether more records were stored. Sums of floats are off by their last bits."""
        return self.records > self.permitted + 1e-6


def permitted(limits: Sequence[tuple[float, float]], start_s: float) -> float:
    """The most records that may be stored in the ten seconds after a time.

    Args:
        limits: from when on, in seconds, each limit in records/s holds.
        start_s: when the window begins.
    """
    end_s, total, highest = start_s + _WINDOW_S, 0.0, 0.0
    for index, (since_s, rate) in enumerate(limits):
        until_s = limits[index + 1][0] if index + 1 < len(limits) else math.inf
        overlap_s = min(end_s, until_s) - max(start_s, since_s)
        if overlap_s >= 0:
            total, highest = total + overlap_s * rate, max(highest, rate)
    return total + max(1.0, highest * _BURST_S)


def fullest(stored: Sequence[tuple[float, int]], limits: Sequence[tuple[float, float]]) -> Window:
    """The window that used the largest part of its limit.

    Args:
        stored: time in seconds and number of records, in order.
        limits: as in ``permitted``.
    """
    worst, end, records = Window(0.0, 0, 1.0), 0, 0
    for at_s, count in stored:
        while end < len(stored) and stored[end][0] <= at_s + _WINDOW_S:
            records += stored[end][1]
            end += 1
        worst = max(worst, Window(at_s, records, permitted(limits, at_s)), key=lambda window: window.part)
        records -= count
    return worst


# -- simulated --


class _OwnClock(Clock):
    """A clock that only a wait advances. Changes of the limit fall into the waits."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        self.changes: list[tuple[float, Callable[[], object]]] = []

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        return self.time_ms

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        until_ms = self.time_ms + duration_ms
        if self.changes and self.changes[0][0] <= until_ms:
            self.time_ms, change = self.changes.pop(0)
            change()
        else:
            self.time_ms = until_ms

    def wake(self) -> None:
        """Do nothing: nobody else waits."""


def simulated(seed: int, duration_s: float) -> tuple[Window, int, int]:
    """One receiver: its fullest window, and how many records and limits it had."""
    rng = random.Random(seed)
    clock = _OwnClock()
    limits = [(0.0, 10 ** rng.uniform(0, 4))]
    while limits[-1][0] < duration_s:
        limits.append((limits[-1][0] + rng.uniform(1, 20), 10 ** rng.uniform(0, 4)))
    limiter = RateLimiter(clock, limits[0][1], round(_BURST_S * 1000))
    for at_s, rate in limits[1:]:
        clock.changes.append((at_s * 1000, lambda rate=rate: limiter.update(rate)))  # type: ignore[misc]
    stored: list[tuple[float, int]] = []
    while clock.time_ms < duration_s * 1000:
        # As a store of many records does: in parts, each as large as the limiter permits.
        left = int(10 ** rng.uniform(0, 4))
        while left and clock.time_ms < duration_s * 1000:
            granted = limiter.acquire(left)
            stored.append((clock.time_ms / 1000, granted))
            left -= granted
        if rng.random() < 0.3:
            clock.wait_for(rng.expovariate(1 / 2000), threading.Event())
    return fullest(stored, limits), sum(count for _, count in stored), len(limits)


# -- live --


@frozen
class Source:
    """A broker with a backlog: the receiver's options."""

    options: Mapping[str, Any]


@contextmanager
def _broker(name: str, count: int) -> Iterator[Source]:
    source = SOURCES[name]()
    with source.server:
        source.prepare()
        for start in range(0, count, _CHUNK):
            source.publish(range(start, start + _CHUNK))
        source.disconnect()
        yield Source(source.options(source.port))


@contextmanager
def _webhook(count: int) -> Iterator[Source]:
    from penstock_http.conformance import RequestFeeder

    feeder = RequestFeeder()
    feeder.put(["\n".join(map(str, range(start, start + 10))) for start in range(0, count, 10)])
    try:
        yield Source({**feeder.options(), "records": "lines", "columns": "value"})
    finally:
        feeder.close()


@contextmanager
def _pushed(path: str, count: int) -> Iterator[Source]:
    from penstock_http.push_server import PushServer

    server = PushServer()
    server.put(list(map(str, range(count))))
    try:
        yield Source({"url": path.format(port=server.port), "columns": "value"})
    finally:
        server.close()


#: Name of a receiver → its broker with so many records.
LIVE: Mapping[str, Callable[[int], Any]] = {
    # The receiver of `http` is `webhook`.
    **{name: lambda count, name=name: _broker(name, count) for name in SOURCES if name != "http"},  # type: ignore[misc]
    "webhook": _webhook,
    "websocket": lambda count: _pushed("ws://127.0.0.1:{port}/socket", count),
    "sse": lambda count: _pushed("http://127.0.0.1:{port}/events", count),
}


class LiveReceiver:
    """A receiver with a backlog, which notes when it stores how many records."""

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self.stored: list[tuple[float, int]] = []
        self.limits: list[tuple[float, float]] = [(0.0, _LIMITS[0])]
        self._began_s = time.monotonic()
        receiver = Plugins().make("receivers", name, Settings.parse({}), source.options)
        self.host = ReceiverHost(receiver, self._take, {"spark.streaming.backpressure.initialRate": str(_LIMITS[0])})

    def limit(self, rate: float) -> None:
        """Set the limit."""
        before_s = time.monotonic()
        self.host.update_rate(rate)
        after_s = time.monotonic()
        # It changed at some time between the two: the higher limit may have been in force all that time.
        changed_s = before_s if rate > self.limits[-1][1] else after_s
        self.limits.append((changed_s - self._began_s, rate))

    def _take(self, block: Block) -> None:
        self.stored.append((time.monotonic() - self._began_s, block.num_records))


def main() -> None:
    """Print the tables; the exit code is 1 if a limit was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receivers", type=int, default=900, help="simulated receivers")
    parser.add_argument("--minutes", type=float, default=5.0, help="simulated time of each")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each limit of a live receiver holds")
    parser.add_argument("--live", nargs="*", default=list(LIVE), choices=list(LIVE), help="live receivers")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    windows: list[Window] = []
    if arguments.receivers:
        runs = [simulated(arguments.seed + each, 60 * arguments.minutes) for each in range(arguments.receivers)]
        windows += [window for window, _, _ in runs]
        exceeded = sum(window.is_exceeded for window in windows)
        limits, records = sum(run[2] for run in runs), sum(run[1] for run in runs)
        print("| simulated receivers | minutes each | limits | records | fullest 10 s | windows above the limit |")
        print("|---|---|---|---|---|---|")
        print(
            f"| {len(runs)} | {arguments.minutes:g} | {limits:,} | {records:,} "
            f"| {max(window.part for window in windows):.1%} of the limit | {exceeded} |\n",
            flush=True,
        )
    if arguments.live:
        windows += live(arguments.live, arguments.seconds)
    sys.exit(any(window.is_exceeded for window in windows))


def live(names: Sequence[str], seconds: float) -> list[Window]:
    """Run receivers at once, print their table, and return the fullest window of each."""
    # More than the limits let through, so that each receiver always has records.
    count = _CHUNK * math.ceil(1.5 * seconds * sum(_LIMITS) / _CHUNK)
    with ExitStack() as exits:
        receivers = [LiveReceiver(name, exits.enter_context(LIVE[name](count))) for name in names]
        for each in receivers:
            exits.enter_context(each.host)
        for number, rate in enumerate(_LIMITS):
            for each in receivers if number else ():
                each.limit(rate)
            time.sleep(seconds)
        windows = [fullest(list(each.stored), each.limits) for each in receivers]
        print("| receiver | records | limits, records/s | fullest 10 s: records | permitted | part | errors |")
        print("|---|---|---|---|---|---|---|")
        for each, window in zip(receivers, windows, strict=True):
            limits = ", ".join(f"{rate:g}" for _, rate in each.limits)
            stored = sum(records for _, records in each.stored)
            print(
                f"| {each.name} | {stored:,} | {limits} | {window.records:,} | {window.permitted:,.0f} "
                f"| {window.part:.1%} | {len(each.host.errors)} |"
            )
    return windows


if __name__ == "__main__":
    main()
