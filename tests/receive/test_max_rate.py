"""`spark.streaming.receiver.maxRate` holds every form of store: over any time no more than rate x time + burst."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock import Block
from penstock.errors import ReceiverStoppedError
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.receive.conftest import FakeStore, Noting

Background = Callable[[Callable[[], Any]], "Future[Any]"]

RATE, BURST_MS = 100, 200
SECONDS = 20
# How far the clock moves at a time: no divisor of the burst.
STEP_MS = 70
# How long a thread stores, and then idles, so that unused permits gather.
BUSY_MS, IDLE_MS = 5000, 1500


def bulk(size: int) -> pa.Table:
    return pa.table({"value": list(range(size))})


FORMS: dict[str, Callable[[Noting], object]] = {
    "store": lambda receiver: receiver.store(1),
    "store_all, few": lambda receiver: receiver.store_all([1, 2, 3]),
    "store_all, many": lambda receiver: receiver.store_all(list(range(1000))),
    "store_all, a generator": lambda receiver: receiver.store_all(n for n in range(45)),
    "store_arrow, few": lambda receiver: receiver.store_arrow(bulk(3)),
    "store_arrow, a table": lambda receiver: receiver.store_arrow(bulk(1000)),
    "store_arrow, a batch": lambda receiver: receiver.store_arrow(bulk(45).to_batches()[0]),
}


def _name(forms: list[str]) -> str:
    return f"{len(forms)} threads: {forms[0] if len(set(forms)) == 1 else 'all forms'}"


class Releases:
    """When how many records got past the limit: those stored singly when the call returns, others when stored."""

    def __init__(self, clock: ManualClock, store: FakeStore) -> None:
        self._clock = clock
        self._storing = set[int]()
        self._lock = threading.Lock()
        self.released: list[tuple[int, int]] = []
        store.on_store = self._on_store

    def _on_store(self, block: Block) -> None:
        # What was stored singly comes through on another thread.
        if threading.get_ident() in self._storing:
            self._note(block.num_records)

    def _note(self, count: int) -> None:
        with self._lock:
            self.released.append((self._clock.now_ms(), count))

    def keep_storing(self, receiver: Noting, form: str) -> None:
        """Store over and over, with an idle spell now and then, until the receiver stops."""
        self._storing.add(threading.get_ident())
        idle_at_ms = self._clock.now_ms() + BUSY_MS
        with contextlib.suppress(ReceiverStoppedError):
            while receiver.isStarted():
                FORMS[form](receiver)
                if form == "store":
                    self._note(1)
                if self._clock.now_ms() >= idle_at_ms:
                    self._clock.wait_for(IDLE_MS, threading.Event())
                    idle_at_ms = self._clock.now_ms() + BUSY_MS


def most_above(released: list[tuple[int, int]], rate_per_s: float) -> float:
    """The most, over all times from one release to another, by which more passed than rate x time."""
    # Passed from the first to the last release of a time: the sum before the last less that before the first.
    passed, least_before, most = 0, 0.0, 0.0
    for now_ms, count in released:
        least_before = min(least_before, passed - rate_per_s * now_ms / 1000)
        passed += count
        most = max(most, passed - rate_per_s * now_ms / 1000 - least_before)
    return most


@pytest.mark.parametrize(
    "forms", [*([form] * threads for form in FORMS for threads in (1, 10)), [*FORMS, *FORMS]], ids=_name
)
def test_over_several_busy_and_idle_times_no_form_of_store_exceeds_it(
    supervise: Callable[..., ReceiverSupervisor],
    receiver: Noting,
    clock: ManualClock,
    store: FakeStore,
    background: Background,
    forms: list[str],
) -> None:
    releases = Releases(clock, store)
    supervisor = supervise(receiver, {"spark.streaming.receiver.maxRate": str(RATE)})
    supervisor.start()
    # No estimate lifts the maximum.
    supervisor.take(UpdateRateLimit(10 * RATE, 1))
    storing = [background(partial(releases.keep_storing, receiver, form)) for form in forms]
    while clock.now_ms() < SECONDS * 1000:
        # Who stores, and the timer that cuts blocks.
        clock.await_waiters(len(forms) + 1)
        clock.advance(STEP_MS)
    clock.await_waiters(len(forms) + 1)
    supervisor.stop("the time is over")
    clock.advance(IDLE_MS)
    for future in storing:
        future.result(timeout=10)
    released = releases.released
    assert all(earlier <= later for (earlier, _), (later, _) in pairwise(released))
    assert most_above(released, RATE) <= RATE * BURST_MS / 1000 + 1e-6
    # Nothing to be proud of if hardly anything passed.
    assert sum(count for _, count in released) >= 0.9 * RATE * SECONDS * BUSY_MS / (BUSY_MS + IDLE_MS)


@pytest.mark.parametrize(
    ("released", "most"),
    [
        ([(0, 20)], 20),
        ([(0, 1), (10, 1), (20, 1)], 1),
        ([(0, 20), (100, 20)], 30),
        ([(0, 5), (1000, 20), (1000, 3)], 23),
    ],
)
def test_limiter_that_passes_too_many_is_detected(released: list[tuple[int, int]], most: float) -> None:
    assert most_above(released, RATE) == pytest.approx(most)
