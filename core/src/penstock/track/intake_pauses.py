"""``IntakePauses``: whether receivers take anything now, and why not.

Owns the reasons to pause; receivers pause while there is one. Every receiver is told when that changes, and at its
registration. Called on the tracker's loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.receive.messages import PauseReceiver
from penstock.track.orders import Orders
from penstock.track.tracked_receiver import TrackedReceiver

BATCHES, UNREAD = "too many batches are pending", "too much data is unread"


class IntakePauses:
    """Pause all receivers, and let them go on.

    Args:
        receivers: to tell.
        orders: the way to tell them.
    """

    def __init__(self, receivers: Iterable[TrackedReceiver], orders: Orders) -> None:
        self._receivers, self._orders = list(receivers), orders
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
            self._orders.give(tracked, PauseReceiver, lambda: self.paused)
