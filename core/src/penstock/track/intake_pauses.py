"""``IntakePauses``: whether receivers take anything now, and why not.

Owns the reasons to pause; receivers pause while there is one. Every receiver is told when that changes, again when it
could not be reached, and at its registration. Called on the tracker's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

from penstock.clock import Clock
from penstock.threads import EngineThread
from penstock.track.tracked_receiver import TrackedReceiver
from penstock.wire.messages import PauseReceiver

# A receiver that was not reached is told again after so long to pause, or to go on: it must not stay as it is.
_TELL_AGAIN_MS = 1000

BATCHES, UNREAD = "too many batches are pending", "too much data is unread"


class IntakePauses:
    """Pause all receivers, and let them go on.

    Args:
        receivers: to tell.
        clock: of the engine.
        stopping: nobody is told anything behind it.
        post: has something done on the tracker's loop.
    """

    def __init__(
        self,
        receivers: Iterable[TrackedReceiver],
        clock: Clock,
        stopping: threading.Event,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._receivers, self._clock, self._stopping, self._post = list(receivers), clock, stopping, post
        self._reasons: set[str] = set()

    @property
    def paused(self) -> bool:
        """Whether receivers are to take nothing."""
        return bool(self._reasons)

    def set(self, reason: str, paused: bool) -> None:
        """Add or remove a reason, and tell every receiver what follows."""
        if paused:
            self._reasons.add(reason)
        else:
            self._reasons.discard(reason)
        for tracked in self._receivers:
            self._tell(tracked, tracked.epoch)

    def _tell(self, tracked: TrackedReceiver, epoch: int) -> None:
        def tell_again() -> None:
            self._clock.wait_for(_TELL_AGAIN_MS, self._stopping)
            self._post(partial(self._tell, tracked, epoch))

        # Later launches learn it when they register.
        if tracked.is_active and tracked.epoch == epoch and not self._stopping.is_set():
            tracked.tell(
                PauseReceiver(self.paused),
                undelivered=EngineThread(f"receiver {tracked.stream_id} pause", tell_again).start,
            )
