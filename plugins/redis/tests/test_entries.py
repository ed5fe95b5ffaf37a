"""Entries as columns, what becomes of each, and how many to read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock_redis import RedisOptions
from penstock_redis.fetch_size import FetchSize
from penstock_redis.sorted_delivery import sort
from penstock_redis.stored_ranges import StoredRanges, position_after
from penstock_redis.stream_entries import Delivery

FIRST, SECOND, THIRD = b"1700000000123-0", b"1700000000123-1", b"1700000000124-0"


def options(**values: Any) -> RedisOptions:
    return RedisOptions(**{"streams": "s", "value_as": "text", **values})


def delivery(*fields: list[bytes], counts: dict[bytes, int] | None = None) -> Delivery:
    return Delivery(b"s", list(zip((FIRST, SECOND, THIRD), fields, strict=False)), counts=counts or {})


def rows(given: Delivery, **values: Any) -> list[dict[str, Any]]:
    return [row for table in sort(given, options(**values)).tables for row in table.to_pylist()]


def test_every_column_of_an_entry() -> None:
    columns = ("stream", "id", "timestamp", "deliveries", "fields", "value")
    (row,) = rows(delivery([b"a", b"1", b"value", b"2", b"a", b"3"], counts={FIRST: 4}), columns=columns)
    assert row == {
        "stream": "s",
        "id": FIRST.decode(),
        "timestamp": datetime.fromtimestamp(1_700_000_000.123, UTC),
        "deliveries": 4,
        # Two fields may have one name.
        "fields": [("a", "1"), ("value", "2"), ("a", "3")],
        "value": "2",
    }


def test_first_delivery_has_no_count() -> None:
    assert rows(delivery([b"value", b"1"]), columns=("deliveries",)) == [{"deliveries": 1}]


@pytest.mark.parametrize("value_as", ["bytes", "text", "json"])
def test_values_have_the_chosen_form(value_as: str) -> None:
    (row,) = rows(delivery([b"value", b"[1]"]), columns=("value",), value_as=value_as)
    assert row == {"value": b"[1]" if value_as == "bytes" else "[1]"}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ([b"value", b"\xff"], "invalid UTF8"),
        ([b"other", b"1"], "the entry has no field 'value', its first is b'other'"),
        ([b"value", b"1", b"\xff", b"2"], "invalid UTF8"),
    ],
)
def test_entry_that_cannot_be_decoded_stays_pending(fields: list[bytes], error: str) -> None:
    given = sort(delivery([b"value", b"1"], fields, [b"value", b"3"]), options(columns=("fields", "value")))
    assert given.stored_ids == [FIRST, THIRD]
    assert [table.num_rows for table in given.tables] == [1, 1]
    assert list(given.left) == [SECOND]
    assert error.lower() in str(given.left[SECOND]).lower()
    assert not given.given_up
    assert given.message.startswith(
        "1 entries of stream 's' cannot be decoded and stay pending: the option dead_letter"
    )


def test_entry_that_cannot_be_decoded_becomes_a_dead_letter() -> None:
    given = sort(delivery([b"value", b"\xff"], [b"value", b"2"]), options(columns=("value",), dead_letter="dead"))
    (letter,) = given.given_up
    assert letter.entry_id == FIRST
    known = dict(zip(letter.fields[2::2], letter.fields[3::2], strict=True))
    assert list(letter.fields[:2]) == [b"value", b"\xff"]
    assert known["penstock-reason"] == "undecodable"
    assert known["penstock-origin"] == f"s/{FIRST.decode()}"
    assert known["penstock-deliveries"] == "1"
    assert "utf8" in str(known["penstock-error"]).lower()
    assert given.stored_ids == [SECOND]
    assert given.left == {}


def test_entry_that_was_delivered_too_often_becomes_a_dead_letter() -> None:
    counts = {FIRST: 3, SECOND: 4}
    given = delivery([b"value", b"1"], [b"value", b"2"], counts=counts)
    chosen = {"columns": ("value",), "max_deliveries": 3}
    sorted_delivery = sort(given, options(dead_letter="dead", **chosen))
    assert sorted_delivery.stored_ids == [FIRST]
    assert sorted_delivery.message.endswith(f"The first is s/{SECOND.decode()}: delivered more than 3 times")
    # Without another stream, nothing is given up.
    assert sort(given, options(**chosen)).stored_ids == [FIRST, SECOND]


def test_trimmed_entries_are_acknowledged() -> None:
    given = Delivery.of(b"s", [(FIRST, None), (SECOND, [b"value", b"2"])])
    assert given.trimmed == [FIRST]
    by_fate = sort(given, options(columns=("value",)))
    assert (by_fate.trimmed, by_fate.stored_ids) == ([FIRST], [SECOND])


def test_entries_between_the_ends_of_the_position_are_stored() -> None:
    stored = [(b"s", [FIRST, SECOND]), (b"t", [THIRD])]
    assert position_after(1, stored) == {"s": [FIRST.decode()] * 2}
    assert position_after(3, stored) == {"s": [FIRST.decode(), SECOND.decode()], "t": [THIRD.decode()] * 2}
    ranges = StoredRanges(position_after(2, stored))
    assert [ranges.contains(b"s", entry_id) for entry_id in (b"1-0", FIRST, SECOND, THIRD)] == [
        False,
        True,
        True,
        False,
    ]
    assert not ranges.contains(b"t", THIRD)


def test_number_of_entries_to_read_follows_their_size() -> None:
    size = FetchSize()
    assert size.count(1000) == 256
    small = size.after(delivery(*[[b"value", b"x" * 94]] * 3))
    for _ in range(20):
        small = small.after(delivery(*[[b"value", b"x" * 94]] * 3))
    assert small.count(100_000) == pytest.approx(160_000, rel=0.5)
    assert small.count(10) == 10
    # A large entry counts at once.
    assert small.after(delivery([b"value", b"x" * (64 << 20)])).count(1000) == 1
    assert size.after(delivery()) == size
