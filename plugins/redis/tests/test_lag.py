"""The lag of a group, from the server's descriptions of the group and of its stream."""

from __future__ import annotations

import pytest

from penstock_redis.consumer_group import StreamLag, lag_of
from penstock_redis.group_monitor import is_due

NOW_MS = 1_700_000_010_000
OLD, NEW = b"1700000000000-0", b"1700000009000-0"


@pytest.mark.parametrize(
    ("lag", "last", "newest", "first", "length", "expected"),
    [
        (0, NEW, NEW, OLD, 2, StreamLag(0, 0.0, 0)),
        (1, OLD, NEW, OLD, 2, StreamLag(1, 10.0, 0)),
        # Nothing was delivered yet: the first entry waits for 10 s.
        (2, b"0-0", NEW, OLD, 2, StreamLag(2, 10.0, 0)),
        (0, b"0-0", b"0-0", None, 0, StreamLag(0, 0.0, 0)),
        # Five were added, two are left, and none was delivered.
        (5, OLD, NEW, NEW, 2, StreamLag(2, 10.0, 3)),
        (3, OLD, NEW, None, 0, StreamLag(0, 0.0, 3)),
        # The server does not know it, as after a start in the middle.
        (None, OLD, NEW, OLD, 2, StreamLag(None, 10.0, 0)),
        (None, NEW, NEW, OLD, 2, StreamLag(None, 0.0, 0)),
        # Ids that a producer chose are no times.
        (3, b"7-0", b"10-0", b"1-0", 10, StreamLag(3, None, 0)),
    ],
)
def test_lag(
    lag: int | None, last: bytes, newest: bytes, first: bytes | None, length: int, expected: StreamLag
) -> None:
    group = {b"lag": lag, b"last-delivered-id": last}
    info = {b"last-generated-id": newest, b"first-entry": first and [first, []], b"length": length}
    assert lag_of(group, info, NOW_MS) == expected


@pytest.mark.parametrize(
    ("idle_s", "due"), [(0, False), (19, False), (20, True), (59, True), (60, False), (900, False)]
)
def test_entries_are_extended_in_time_or_not_at_all(idle_s: float, due: bool) -> None:
    assert is_due(idle_s, 60) is due
