"""What the derived operators do with one record, or two. Runs in the Python worker."""

from __future__ import annotations

from typing import Any


def same(record: Any) -> Any:
    """The record itself."""
    return record


def keyed(record: Any) -> tuple[None, Any]:
    """All records under one key."""
    return None, record


def value_of(pair: tuple[Any, Any]) -> Any:
    """A pair's value."""
    return pair[1]


def counted(record: Any) -> tuple[Any, int]:
    """One of this record."""
    return record, 1


def is_counted(pair: tuple[Any, int]) -> bool:
    """Whether a window still has one."""
    return pair[1] > 0


def one(_record: Any) -> int:
    """Any record counts one."""
    return 1


def listed(value: Any) -> list[Any]:
    """A list of one."""
    return [value]


def appended(values: list[Any], value: Any) -> list[Any]:
    """One more, in place."""
    values.append(value)
    return values


def extended(values: list[Any], more: list[Any]) -> list[Any]:
    """Several more, in place."""
    values.extend(more)
    return values
