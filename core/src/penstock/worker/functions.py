"""The partition functions of operators on whole partitions, and small functions that other operators share.

The program's function, the first argument, is called inside generators only: there a StopIteration is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.errors import shown

#: A function from a partition's index and records to its new records.
PartitionFunction = Callable[[int, Iterable[Any]], Iterable[Any]]


def map_partitions_with_index(
    f: Callable[[int, Any], Iterable[Any]], index: int, records: Iterable[Any]
) -> Iterator[Any]:
    """``mapPartitionsWithIndex``."""
    yield from f(index, iter(records))


def same(value: Any) -> Any:
    """The value itself."""
    return value


def one(_record: Any) -> int:
    """The count of one record."""
    return 1


def counted(record: Any) -> tuple[Any, int]:
    """Pair a record with its count."""
    return record, 1


def appended(values: list[Any], value: Any) -> list[Any]:
    """Append a value in place."""
    values.append(value)
    return values


def check_pair(record: Any) -> None:
    """Reject a record that is not a pair, or whose key cannot be hashed, with a TypeError."""
    try:
        key, _value = record
    except (TypeError, ValueError):
        raise TypeError(
            f"operators by key take (key, value) pairs, and a record is {_described(record)}; "
            "make pairs first, with map"
        ) from None
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"the key {_described(key)} cannot be hashed; make it a tuple, a string or another immutable value first"
        ) from None


def _described(value: Any) -> str:
    return f"{shown(value)} ({type(value).__name__})"
