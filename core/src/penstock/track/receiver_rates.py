"""``RateLimits``: the rate limit of each receiver, from estimates and the configured maxima. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import frozen

from penstock.conf import Settings


def shares(wanted: Mapping[int, float], total: float) -> dict[int, float]:
    """Divide a total so that nobody has more than wanted, and whoever has less no less than another."""
    left, given = total, {}
    for number, (stream_id, rate) in enumerate(sorted(wanted.items(), key=lambda item: item[1])):
        given[stream_id] = min(rate, left / (len(wanted) - number))
        left -= given[stream_id]
    return given


@frozen
class RateLimits:
    """The configured limits, records/s; infinite for none.

    Changes reach receivers one by one: until all have obeyed one, together they may exceed the application's maximum.

    Attributes:
        initial: limit before the first estimate.
        maximum: upper limit per receiver.
        total: upper limit for all receivers together.
    """

    initial: float = math.inf
    maximum: float = math.inf
    total: float = math.inf

    @classmethod
    def of(cls, settings: Settings) -> RateLimits:
        """The limits that are configured."""
        return cls(settings.initial_rate_per_s, settings.max_rate_per_s, settings.max_total_rate_per_s)

    def divide(self, estimates: Mapping[int, float | None]) -> dict[int, float | None]:
        """The limit of each receiver, records/s, ``None`` for no limit.

        Args:
            estimates: by stream id; ``None`` where there is none yet.
        """
        wanted = {
            stream_id: min(self.initial if rate is None else rate, self.maximum)
            for stream_id, rate in estimates.items()
        }
        limits = wanted if math.isinf(self.total) else shares(wanted, self.total)
        return {stream_id: None if math.isinf(rate) else rate for stream_id, rate in limits.items()}
