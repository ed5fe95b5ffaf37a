"""``StoredRanges``: the entries that a former run stored last, from the metadata of its blocks. Pure functions.

One read of new entries gives all entries between its first and its last to this consumer. So the two ids say which
entries are stored, even if the receiver died before it acknowledged them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen


def number_of(entry_id: bytes) -> tuple[int, int]:
    """An id in a form that compares as the server compares ids."""
    milliseconds, _, sequence = entry_id.partition(b"-")
    return int(milliseconds), int(sequence or 0)


@frozen
class StoredRanges:
    """Entries that are stored and may not be acknowledged.

    Attributes:
        position: stream → first and last id of the entries stored last.
    """

    position: Mapping[str, Any]

    def contains(self, stream: bytes, entry_id: bytes) -> bool:
        """Whether an entry is one of them."""
        ends = self.position.get(stream.decode())
        if ends is None:
            return False
        first, last = (number_of(end.encode()) for end in ends)
        return first <= number_of(entry_id) <= last


def position_after(rows: int, stored: Sequence[tuple[bytes, Sequence[bytes]]]) -> dict[str, list[str]]:
    """The position after some rows of a store.

    Args:
        rows: number of stored rows.
        stored: streams with the ids of their new entries, in the order of the rows.
    """
    position = {}
    for stream, ids in stored:
        count = min(rows, len(ids))
        if count:
            position[stream.decode()] = [ids[0].decode(), ids[count - 1].decode()]
        rows -= count
    return position
