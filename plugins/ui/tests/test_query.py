from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings, strategies as st

from penstock_ui.dashboard.query import Query, tabulate


def read(text: str) -> Query:
    return Query.of({name: [value.encode() for value in values] for name, values in parse_qs(text).items()})


def test_known_arguments_are_read() -> None:
    query = read("id=12&page=3&sort=rate&order=asc&show=problems&q=orders&from=5&to=9")
    assert query == Query(12, 3, "rate", False, "problems", "orders", 5, 9)


@pytest.mark.parametrize("text", ["id=", "id=x", "id=-1", "id=1e9", "id=²", "id=" + "9" * 50, "id=1%00", ""])
def test_what_is_no_number_is_as_if_missing(text: str) -> None:
    assert read(text).id == (1 if text == "id=1%00" else None)


@given(st.dictionaries(st.text(max_size=5), st.lists(st.binary(max_size=200), max_size=3), max_size=5))
@settings(deadline=None)
def test_no_argument_makes_reading_fail_and_none_is_kept_at_length(arguments: dict[str, list[bytes]]) -> None:
    query = Query.of({**arguments, "q": [b"\xff\x00" * 500], "page": arguments.get("id", [b"0"])})
    assert len(query.text) <= 100
    assert query.page >= 1
    assert read(query.address().removeprefix("?")).text == query.text


def test_a_table_is_sorted_cut_and_leads_to_its_other_pages() -> None:
    rows = [3, None, 1, 2]
    keys = {"value": lambda row: row, "negative": lambda row: None if row is None else -row}
    table = tabulate(rows, read("sort=value&order=asc&page=2"), keys, 3, descending=True)
    assert (table.rows, table.pages, table.first, table.last, table.total) == ([3], 2, 4, 4, 4)
    assert table.at(1) == "?sort=value&order=asc"
    assert table.sorted_by("value") == "?sort=value&order=desc"
    assert table.sorted_by("negative") == "?sort=negative&order=desc"


def test_an_unknown_column_and_a_page_too_high_are_tolerated() -> None:
    table = tabulate([1, 2, 3], read("sort=evil&page=999"), {"value": lambda row: row}, 2, descending=True)
    assert (table.rows, table.page, table.sort) == ([1], 2, "value")
    empty = tabulate([], Query(), {"value": lambda row: row}, 2, descending=True)
    assert (empty.rows, empty.pages, empty.first, empty.last) == ([], 1, 0, 0)


def test_addresses_escape_what_they_carry() -> None:
    assert read('q="><script>&sort=a%26b').address() == "?q=%22%3E%3Cscript%3E&sort=a%26b"
