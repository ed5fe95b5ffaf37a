"""Functions of one or two records that derived operators are built from. They run in the Python worker."""

from __future__ import annotations

from typing import Any


def same(record: Any) -> Any:
    """The record itself."""
    return record


def keyed(record: Any) -> tuple[None, Any]:
    """The record, with the key that all records share."""
    return None, record


def value_of(pair: tuple[Any, Any]) -> Any:
    """A pair's value."""
    return pair[1]


def counted(record: Any) -> tuple[Any, int]:
    """The record with the count 1."""
    return record, 1


def is_counted(pair: tuple[Any, int]) -> bool:
    """Whether a window still contains the record."""
    return pair[1] > 0


def one(_record: Any) -> int:
    """The count of one record."""
    return 1


def listed(value: Any) -> list[Any]:
    """A list with the value."""
    return [value]


def appended(values: list[Any], value: Any) -> list[Any]:
    """Append a value in place."""
    values.append(value)
    return values


def extended(values: list[Any], more: list[Any]) -> list[Any]:
    """Append several values in place."""
    values.extend(more)
    return values
