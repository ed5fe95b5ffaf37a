"""What the benchmarks send, and the answers that are expected of it."""

from __future__ import annotations

import socket
from collections import Counter

import pytest
from benchmarks import data
from benchmarks.data import Lines
from benchmarks.sender import Pace, Sender


def received(sender: Sender, num_bytes: int) -> bytes:
    with socket.create_connection(("127.0.0.1", sender.ports[0]), timeout=30) as connection:
        found = b""
        while len(found) < num_bytes:
            found += connection.recv(1 << 16)
        return found


@pytest.mark.parametrize(("first", "last"), [(0, 3), (9_990, 10_020), (5, 25_007)])
def test_expected_words_are_those_of_the_lines_sent(first: int, last: int) -> None:
    lines = Lines(seed=7)
    assert lines.words(first, last) == Counter(lines.encoded(first, last).decode().split())


def test_expected_matches_are_those_of_the_lines_sent() -> None:
    lines = Lines(seed=7)
    sent = lines.encoded(0, 10_100).decode().splitlines()
    assert 0 < lines.matches(10_100) == sum(data.PATTERN in line for line in sent)


@pytest.mark.parametrize("size", [10, 100, 1_000, 10_000])
def test_lines_have_about_their_size(size: int) -> None:
    lines = Lines(seed=7, size=size)
    sent = lines.encoded(0, 50)
    assert sent.count(b"\n") == 50
    assert 0.7 * size - 3 <= len(sent) / 50 <= 1.1 * size


def test_a_seed_gives_the_same_lines_and_another_seed_others() -> None:
    assert Lines(1).encoded(0, 9) == Lines(1).encoded(0, 9) != Lines(2).encoded(0, 9)


def test_top_orders_equal_counts_by_word() -> None:
    assert data.top({"b": 2, "a": 2, "c": 3})[:3] == [["c", 3], ["a", 2], ["b", 2]]


def test_digest_differs_where_one_count_does() -> None:
    assert data.digest({"a": 1, "b": 2}) == data.digest({"b": 2, "a": 1}) != data.digest({"a": 2, "b": 1})


def test_window_sums_hold_the_batches_of_the_window() -> None:
    batches = [[(1, 1)] * n for n in (3, 1, 4)]
    assert data.window_sums(batches, 2) == [3, 4, 5]


def test_largest_totals_add_up_over_batches() -> None:
    assert data.largest_totals([[(1, 1), (2, 1)], [(1, 1)], [(2, 1)]]) == [1, 2, 2]


def test_sender_sends_every_line_as_fast_as_it_is_taken() -> None:
    lines = Lines(seed=3)
    expected = lines.encoded(0, 10_005)
    with Sender(lines, 10_005) as sender:
        assert sender.began_at == 0
        assert received(sender, len(expected)) == expected
        assert sender.began_at > 0


def test_paced_sender_stamps_the_last_line_of_each_burst() -> None:
    lines = Lines(seed=3)
    with Sender(lines, 6, pace=Pace(burst=3, period_s=0.001, is_stamped=True)) as sender:
        sent = received(sender, len(lines.encoded(0, 6)) + 36).decode().splitlines()
    stamps = [word for line in sent for word in line.split(" ") if word.startswith(data.STAMP)]
    assert [line.split(" ")[-1] for line in (sent[2], sent[5])] == stamps
    assert int(stamps[0][1:]) <= int(stamps[1][1:])
