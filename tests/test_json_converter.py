"""The strict converter takes a JSON value that fits a class exactly, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from penstock.json_converter import StructureError
from penstock.spi import structure, unstructure


@attrs.frozen
class Inner:
    name: str = ""
    rate: float | None = None


@attrs.frozen
class Outer:
    number: int
    inner: Inner = Inner()
    several: list[Inner] = attrs.field(factory=list)
    by_time: dict[int, str] = attrs.field(factory=dict)
    pairs: tuple[tuple[int, float], ...] = ()


def test_what_is_written_is_read() -> None:
    outer = Outer(1, Inner("a", 2.5), [Inner("b")], {1000: "x"}, ((1, 0.5), (2, 1.0)))
    assert structure(json.loads(json.dumps(unstructure(outer))), Outer) == outer


def test_a_whole_number_is_a_float() -> None:
    inner = structure({"rate": 2}, Inner)
    assert (inner, type(inner.rate)) == (Inner(rate=2.0), float)


def test_attributes_of_a_later_version_are_ignored_on_request() -> None:
    later = {"number": 1, "later": [1], "inner": {"name": "a", "later": 2}}
    assert structure(later, Outer, is_open=True) == Outer(1, Inner("a"))
    with pytest.raises(StructureError):
        structure({**later, "number": "1"}, Outer, is_open=True)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"number": "1"},
        {"number": 1.0},
        {"number": True},
        {"number": None},
        {"number": 1, "other": 2},
        {"number": 1, "inner": []},
        {"number": 1, "inner": {"name": 5}},
        {"number": 1, "inner": {"rate": "2"}},
        {"number": 1, "inner": {"rate": 10**400}},
        {"number": 1, "several": {"name": "a"}},
        {"number": 1, "several": "ab"},
        {"number": 1, "by_time": {"soon": "x"}},
        {"number": 1, "by_time": [["1", "x"]]},
        {"number": 1, "pairs": [["1", 0.5]]},
        [1],
        "1",
        None,
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any) -> None:
    with pytest.raises(StructureError):
        structure(value, Outer)
