"""``FetchSize``: how many entries to read at once, so that a reply has a bounded number of bytes."""

from __future__ import annotations

from attrs import evolve, frozen

from penstock_redis.stream_entries import Delivery

_REPLY_BYTES = 16 << 20


@frozen
class FetchSize:
    """The expected size of an entry. The server limits a reply by the number of its entries only.

    Attributes:
        entry_bytes: above the size of a usual entry until the first reply.
    """

    entry_bytes: float = 64 << 10

    def count(self, most: int) -> int:
        """The number of entries to read, from 1 to ``most``."""
        return max(1, min(most, int(_REPLY_BYTES / self.entry_bytes)))

    def after(self, delivery: Delivery) -> FetchSize:
        """The size to expect after this delivery: larger entries count at once, smaller ones in part."""
        if not delivery.entries:
            return self
        mean = max(1.0, delivery.num_bytes / len(delivery.entries))
        return evolve(self, entry_bytes=mean if mean > self.entry_bytes else (mean + self.entry_bytes) / 2)
