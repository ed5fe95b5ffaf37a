"""Decoding: the messages that can be decoded keep their order, the others are found with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from penstock_brokers import ColumnReader, ValueAs, decode, readable


@pytest.mark.parametrize(
    ("value_as", "values", "decoded"),
    [
        ("bytes", [b"\xff", b"", None], [b"\xff", b"", None]),
        ("text", ["é😀".encode(), b"", None], ["é😀", "", None]),
        ("json", [b'{"a": 1}', b" 2", None], ['{"a": 1}', " 2", None]),
    ],
)
def test_bodies_are_decoded(value_as: ValueAs, values: list[bytes | None], decoded: list[Any]) -> None:
    array = decode(values, value_as)
    assert array.to_pylist() == decoded
    # The same schema for every batch.
    assert array.type == decode([], value_as).type == decode([None], value_as).type


@pytest.mark.parametrize(
    ("value_as", "value"),
    [("text", b"\xff"), ("json", b"{"), ("json", b""), ("json", b"\xff"), ("json", b"[" * 100_000)],
)
def test_body_that_does_not_fit_is_an_error(value_as: ValueAs, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"UTF|utf|JSON|Expecting"):
        decode([b"1", value], value_as)


@given(st.lists(st.booleans(), max_size=40))
def test_every_message_is_in_a_table_or_has_an_error(are_good: list[bool]) -> None:
    def table_of(messages: Sequence[tuple[int, bool]]) -> pa.Table:
        if bad := [number for number, is_good in messages if not is_good]:
            raise ValueError(f"message {bad[0]}")
        return pa.table({"number": [number for number, _ in messages]})

    messages = list(enumerate(are_good))
    tables, errors = readable(messages, table_of)
    assert [row["number"] for table in tables for row in table.to_pylist()] == [n for n, good in messages if good]
    assert {number: str(error) for number, error in errors.items()} == {
        number: f"message {number}" for number, is_good in messages if not is_good
    }
    assert all(table.num_rows for table in tables)


def test_few_bad_messages_cost_few_attempts() -> None:
    calls = 0

    def table_of(messages: Sequence[int]) -> pa.Table:
        nonlocal calls
        calls += 1
        if 500 in messages:
            raise ValueError
        return pa.table({"number": messages})

    _, errors = readable(range(1024), table_of)
    assert (list(errors), calls) == ([500], 21)


def test_only_the_chosen_columns_are_made() -> None:
    arrays = {name: lambda values, name=name: pa.array([f"{name}{value}" for value in values]) for name in "abc"}
    table = ColumnReader(("c", "a"), arrays)([1, 2])
    assert table.to_pylist() == [{"c": "c1", "a": "a1"}, {"c": "c2", "a": "a2"}]
