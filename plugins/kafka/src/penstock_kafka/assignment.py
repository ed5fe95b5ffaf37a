"""``Assignment``: the partitions that this member of a group owns, and what it may commit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock_kafka.records import Partition


class Assignment:
    """Partitions and their offsets. One thread uses it.

    Args:
        stored: the next offsets of partitions from which records are stored, by this launch or an earlier one.
    """

    def __init__(self, stored: Mapping[Partition, int]) -> None:
        self._stored = dict(stored)
        # Counts rebalances: a partition that comes back is another possession of it.
        self._number = 0
        self._owned: dict[Partition, int] = {}
        #: The offset after the last record fetched from each partition owned.
        self.fetched: dict[Partition, int] = {}

    @property
    def owned(self) -> list[Partition]:
        """The partitions owned now."""
        return list(self._owned)

    @property
    def is_first(self) -> bool:
        """Whether there was no assignment yet."""
        return self._number == 0

    def begins(self, committed: Mapping[Partition, int | None]) -> dict[Partition, int | None]:
        """The first offset per partition: after the later of the stored and the committed one; ``None`` without any.

        Args:
            committed: the offset that the group has committed for each.
        """
        known = ((partition, (offset, self._stored.get(partition))) for partition, offset in committed.items())
        return {
            partition: max((offset for offset in offsets if offset is not None), default=None)
            for partition, offsets in known
        }

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Own these, too."""
        self._number += 1
        self._owned |= dict.fromkeys(partitions, self._number)

    def revoke(self, partitions: Iterable[Partition]) -> None:
        """No longer own these: nothing that was fetched from them before is committed any more."""
        for partition in partitions:
            self._owned.pop(partition, None)
            self.fetched.pop(partition, None)

    def fetch(self, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """Note the offsets after fetched records; return which possession of each partition this is, for ``store``."""
        self.fetched |= {partition: offset for partition, offset in offsets.items() if partition in self._owned}
        return {partition: self._owned[partition] for partition in offsets if partition in self._owned}

    def store(self, offsets: Mapping[Partition, int], possessions: Mapping[Partition, int]) -> dict[Partition, int]:
        """Note that records before these offsets are stored, and return the offsets to commit.

        Args:
            offsets: next offsets.
            possessions: possessions that ``fetch`` returned with the records.
        """
        self._stored |= offsets
        return {
            partition: offset
            for partition, offset in offsets.items()
            if partition in possessions and self._owned.get(partition) == possessions[partition]
        }
