"""Decisions about the number of messages that a broker may have on the way to a receiver. Pure functions."""

from __future__ import annotations

_FACTOR = 4


def is_far_from(window: int, wanted: int) -> bool:
    """Whether a window of unacknowledged messages is to be replaced, which costs a round trip or a connection.

    Args:
        window: the number in force.
        wanted: the number that fits the rate limit now.
    """
    return wanted >= _FACTOR * window or wanted * _FACTOR <= window
