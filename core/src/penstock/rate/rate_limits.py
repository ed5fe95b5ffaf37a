"""``RateLimits``: the rate limit of each receiver, from the estimates and the configured maxima.

Pure: no thread, no clock. A rate is in records/s; ``None`` is no limit, from the configuration to the limiter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from penstock.conf import Settings


def lowest(*rates: float | None) -> float | None:
    """Return the lowest of some rates; ``None`` if none of them is a limit."""
    return min((rate for rate in rates if rate is not None and rate < math.inf), default=None)


class RateLimits:
    """The rate limits of an application's receivers. Not thread-safe.

    Changes reach receivers one by one: until all have obeyed, together they may exceed the application's maximum.
    ``estimates`` has the last estimate for each receiver that has one.
    """

    def __init__(self, settings: Settings, stream_ids: Iterable[int]) -> None:
        self._initial_rate = settings.initial_rate_per_s
        self._max_rate = settings.max_rate_per_s
        self._total_rate = settings.max_total_rate_per_s
        self._receiving = set(stream_ids)
        self.estimates: dict[int, float] = {}

    def estimate(self, stream_id: int, rate: float) -> dict[int, float | None]:
        """Use a new estimate for a receiver; return the limits that may have changed."""
        self.estimates[stream_id] = rate
        if self._total_rate is not None:
            return self.limits()
        # No other receiver is concerned: with a thousand of them, a batch brings a thousand estimates.
        return {stream_id: self._wanted(stream_id)} if stream_id in self._receiving else {}

    def give_up(self, stream_id: int) -> dict[int, float | None]:
        """Leave a receiver out; return the limits of the others, which get its share of the maximum."""
        self._receiving.discard(stream_id)
        return self.limits()

    def limits(self) -> dict[int, float | None]:
        """Return the limit of each receiver."""
        wanted = {stream_id: self._wanted(stream_id) for stream_id in sorted(self._receiving)}
        return wanted if self._total_rate is None else dict(shares(wanted, self._total_rate))

    def _wanted(self, stream_id: int) -> float | None:
        return lowest(self.estimates.get(stream_id, self._initial_rate), self._max_rate)


def shares(wanted: Mapping[int, float | None], total: float) -> dict[int, float]:
    """Divide a total: no share exceeds what is wanted, and a smaller share is as large as any other."""
    rest = total
    divided = dict[int, float]()
    by_rate = sorted(wanted.items(), key=lambda item: total if item[1] is None else item[1])
    for number, (stream_id, rate) in enumerate(by_rate):
        even = rest / (len(wanted) - number)
        divided[stream_id] = even if rate is None else min(rate, even)
        rest -= divided[stream_id]
    return divided
