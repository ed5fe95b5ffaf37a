"""``Housekeeping``: what no message tells the tracker of, looked after every second.

Owns the timer. Sees to launches that wait: for the first executors, or too long for a slot; to receivers that are
healthy again; to those that would be better off on an executor that has joined; to endpoints that serve where
no receiver is any more. Its work is done on the tracker's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

from penstock.receive.messages import StopReceiver
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.recurring_timer import RecurringTimer
from penstock.track.block_places import BlockPlaces
from penstock.track.keepers import Keepers
from penstock.track.launches import Launches
from penstock.track.placement import Placement
from penstock.track.receiver_failures import ReceiverFailures
from penstock.track.tracked_receiver import TrackedReceiver

log = get_logger("receiver_tracker")

_EVERY_MS = 1000
# How often executors that have joined are asked for.
_REBALANCE_MS = 5000
# How long one that has moved serves its blocks where it was. It occupies a slot there, which batches may need to come
# to their end: only while they do it is asked to go on. Afterwards tasks that run on that host read the files.
_SERVE_MS = 60_000
_SERVE_ON_MS = 30_000


class Housekeeping:
    """Look after receivers.

    Args:
        receivers: to look after.
        launches: of them.
        placement: says when to begin, and who should move.
        places: say whose endpoints are needed.
        keepers: are let go when theirs is not.
        failures: are told of launches that take too long.
        clock: of the engine.
        stopping: nothing begins behind it.
        post: has something done on the tracker's loop.
    """

    def __init__(
        self,
        receivers: Iterable[TrackedReceiver],
        launches: Launches,
        placement: Placement,
        places: BlockPlaces,
        keepers: Keepers,
        failures: ReceiverFailures,
        clock: Clock,
        stopping: threading.Event,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._receivers, self._launches, self._placement = list(receivers), launches, placement
        self._places, self._keepers = places, keepers
        self._failures, self._clock, self._stopping, self._post = failures, clock, stopping, post
        self._timer = RecurringTimer(
            clock, _EVERY_MS, lambda _tick: post(self._look), "ReceiverTracker", self._on_error, skip_missed=True
        )
        # On the loop alone: since when the executors are waited for, and whether they are no more.
        self._started_ms, self._launched = 0.0, False
        self._rebalanced_ms = self._served_on_ms = 0.0
        # Written by whoever completes batches.
        self._batch_ms = 0.0

    def start(self) -> None:
        """Launch all receivers, as soon as there are executors for them; begin to look after them."""
        self._started_ms = self._clock.monotonic_ms()
        self._post(self._launch_all)
        self._timer.start(self._timer.start_time_ms())

    def note_batch(self) -> None:
        """A batch has come to its end; may be called on any thread."""
        self._batch_ms = self._clock.monotonic_ms()

    def stop(self) -> None:
        """Look no more."""
        self._timer.stop(interrupt=True)

    def _look(self) -> None:
        if self._stopping.is_set():
            return
        self._launch_all()
        self._keepers.release(self._places.needs)
        self._serve_on()
        if self._clock.monotonic_ms() - self._rebalanced_ms >= _REBALANCE_MS:
            self._rebalance()
        for tracked in self._receivers:
            self._failures.look_after(tracked)
            if self._launches.is_overdue(tracked):
                tracked.overdue = tracked.error_reported = True
                self._failures.overdue(tracked)
                if tracked.launch is not None:
                    self._launches.cancel(tracked.launch)

    def _launch_all(self) -> None:
        waited_ms = self._clock.monotonic_ms() - self._started_ms
        if not self._launched and self._placement.has_enough_executors(waited_ms):
            self._launched = True
            self._launches.launch_all(self._receivers)

    def _serve_on(self) -> None:
        """Have those that serve go on, unless a receiver or batches wait for slots."""
        now_ms = self._clock.monotonic_ms()
        is_due = now_ms - self._served_on_ms >= _SERVE_ON_MS and self._batch_ms > self._served_on_ms
        if is_due and all(tracked.is_active or tracked.given_up for tracked in self._receivers):
            self._served_on_ms = now_ms
            self._keepers.extend(StopReceiver("moves to another executor", _SERVE_MS))

    def _rebalance(self) -> None:
        self._rebalanced_ms = self._clock.monotonic_ms()
        tracked = self._placement.to_move()
        if tracked is not None:
            log.warning("receiver moves to another executor", stream_id=tracked.stream_id, now_on=tracked.place.host)
            tracked.moving = True
            tracked.is_to_keep = tracked.line is not None and self._places.needs(tracked.line)
            serve_ms = _SERVE_MS if tracked.is_to_keep else 0
            stay = partial(setattr, tracked, "moving", False)
            tracked.tell(StopReceiver("moves to another executor", serve_ms), undelivered=stay)

    def _on_error(self, error: BaseException) -> None:
        log.error("receivers not looked after", exc_info=error)
