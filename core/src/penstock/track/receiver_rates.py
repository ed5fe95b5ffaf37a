"""``ReceiverRates``: how much each receiver may store.

Owns what is wanted of each, bounded by the maximum of a receiver and by its part of the application's, and who was told
what. Never measures: what is wanted comes from a rate controller or the program. Changed on the tracker's loop only;
``limit`` and ``wanted`` may be read from any thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.conf import Settings
from penstock.receive.messages import UpdateRateLimit
from penstock.track.orders import Orders
from penstock.track.tracked_receiver import TrackedReceiver


def shares(wanted: Mapping[int, float], total: float) -> dict[int, float]:
    """Divide a total so that nobody has more than wanted, and whoever has less no less than another."""
    left, given = total, {}
    for number, (stream_id, rate) in enumerate(sorted(wanted.items(), key=lambda item: item[1])):
        given[stream_id] = min(rate, left / (len(wanted) - number))
        left -= given[stream_id]
    return given


class ReceiverRates:
    """Say how much each receiver may store, and tell them.

    Changes reach receivers one by one: until all have heard of one, together they may store more than the application
    is to.

    Args:
        tracked: the receivers, by stream id.
        settings: in force.
        orders: the way to tell them.
    """

    def __init__(self, tracked: Mapping[int, TrackedReceiver], settings: Settings, orders: Orders) -> None:
        self._tracked, self._orders, self._max_rate = tracked, orders, settings.max_rate_per_s
        self._initial_rate, self._total = settings.initial_rate_per_s, settings.max_total_rate_per_s
        # Of the application's maximum, when there is one: of each receiver that is not given up.
        self._parts: dict[int, float] = {}
        # The limit that each receiver knows of.
        self._told: dict[int, float] = {}
        self.divide()

    def wanted(self) -> dict[int, float]:
        """The rates that were set, records/s, by stream id."""
        return {stream_id: tracked.rate for stream_id, tracked in self._tracked.items() if tracked.rate is not None}

    def limit(self, stream_id: int) -> float | None:
        """What a receiver is to keep to, records/s; ``None`` for no limit."""
        limit = self._limit(stream_id)
        return None if math.isinf(limit) else limit

    def restore(self, rates: Mapping[int, float]) -> None:
        """Note what was wanted in an earlier run; before the start."""
        for stream_id, rate in rates.items():
            if stream_id in self._tracked:
                self._tracked[stream_id].rate = rate
        self.divide()

    def set(self, stream_id: int, rate: float) -> None:
        """Note what is wanted of a receiver, records/s, and tell those whom that concerns."""
        self._tracked[stream_id].rate = rate
        self.divide()
        self._tell(stream_id)

    def divide(self) -> None:
        """Divide the application's maximum anew, if there is one, and tell those whose part has changed."""
        if math.isinf(self._total):
            return
        takers = [stream_id for stream_id, tracked in self._tracked.items() if not tracked.given_up]
        self._parts = shares({stream_id: self._wanted(stream_id) for stream_id in takers}, self._total)
        for stream_id in takers:
            self._tell(stream_id)

    def at_registration(self, stream_id: int) -> float | None:
        """What a receiver is told when it registers."""
        self._told[stream_id] = self._limit(stream_id)
        return self.limit(stream_id)

    def _tell(self, stream_id: int) -> None:
        limit, tracked = self._limit(stream_id), self._tracked[stream_id]
        if tracked.is_active and limit != self._told.get(stream_id):
            self._told[stream_id] = limit
            self._orders.give(tracked, UpdateRateLimit, lambda: self._limit(stream_id))

    def _limit(self, stream_id: int) -> float:
        return self._parts.get(stream_id) or self._wanted(stream_id)

    def _wanted(self, stream_id: int) -> float:
        tracked = self._tracked.get(stream_id)
        return min(self._initial_rate if tracked is None or tracked.rate is None else tracked.rate, self._max_rate)
