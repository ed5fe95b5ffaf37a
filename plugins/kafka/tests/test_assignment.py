"""Which offsets a member commits, and where it begins."""

from __future__ import annotations

from penstock_kafka.assignment import Assignment

A, B = ("t", 0), ("t", 1)


def test_begins_after_what_is_stored_or_committed_whichever_is_later() -> None:
    assignment = Assignment({A: 5, B: 3})
    assert assignment.begins({A: 4, B: 9, ("t", 2): None}) == {A: 5, B: 9, ("t", 2): None}
    assert assignment.begins({A: None}) == {A: 5}


def test_commits_only_what_was_fetched_in_the_present_assignment() -> None:
    assignment = Assignment({})
    assert assignment.is_first
    assignment.assign([A, B])
    possessions = assignment.fetch({A: 7, B: 8})
    assert assignment.fetched == {A: 7, B: 8}
    assignment.revoke([A])
    assert assignment.store({A: 7, B: 8}, possessions) == {B: 8}
    # It comes back, and the records fetched before are known to be stored.
    assert assignment.begins({A: 2}) == {A: 7}
    assignment.assign([A])
    assert assignment.store({A: 7}, possessions) == {}
    again = assignment.fetch({A: 9})
    assert assignment.store({A: 9}, again) == {A: 9}


def test_records_of_a_partition_that_is_gone_are_not_noted() -> None:
    assignment = Assignment({})
    assignment.assign([B])
    assert assignment.fetch({A: 7, B: 1}) == {B: 1}
    assert assignment.fetched == {B: 1}
    assert assignment.owned == [B]
