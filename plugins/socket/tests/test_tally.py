"""Counting, and telling of it at most once a second."""

from __future__ import annotations

from penstock_socket.tally import Tally


def test_says_what_is_new_and_how_many_there_are() -> None:
    tally = Tally()
    tally.add("odd", 2)
    tally.add("long", 1)
    assert tally.tell(0.0) == "odd: 2 (2 in all), long: 1 (1 in all)"
    tally.add("odd", 3)
    assert tally.tell(1.0) == "odd: 3 (5 in all)"


def test_the_first_is_told_at_once_the_next_after_a_second() -> None:
    tally = Tally()
    assert tally.due_s(10.0) is None
    tally.add("odd", 1)
    assert tally.due_s(10.0) == 0
    tally.tell(10.0)
    assert tally.due_s(10.5) is None
    tally.add("odd", 1)
    assert tally.due_s(10.25) == 0.75
    assert tally.due_s(11.0) == 0
    assert tally.due_s(99.0) == 0


def test_none_is_nothing_to_tell() -> None:
    tally = Tally()
    tally.add("odd", 0)
    assert tally.due_s(0.0) is None
    assert not tally.counts
