"""What a program hands to an operator, checked where it is handed: later it would fail in a task, or as something else.

Owns the checks that several operators share and their words. On the thread that builds the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import StorageLevel

if TYPE_CHECKING:
    from penstock.graph.dstream import DStream

F = TypeVar("F", bound=Callable[..., Any])


def called(name: str, function: F) -> F:
    """An argument that is to be called.

    Raises:
        TypeError: it cannot be.
    """
    if not callable(function):
        raise TypeError(f"{name} must be a function, not {function!r}")
    return function


def stream(operator: str, other: object) -> DStream[Any]:
    """The other stream of an operator that takes two.

    Raises:
        TypeError: it is none.
    """
    from penstock.graph.dstream import DStream

    if not isinstance(other, DStream):
        hint = "; transform can use an RDD" if hasattr(other, "mapPartitions") else ""
        raise TypeError(f"{operator} takes a DStream, not {type(other).__name__}{hint}")
    return other


def partitions(count: object, default: int | None = None) -> int:
    """A number of partitions; ``None`` for the default, where there is one.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is not positive.
    """
    if count is None and default is not None:
        return default
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"numPartitions must be a whole number, not {count!r}")
    if count < 1:
        raise ValueError(f"numPartitions must be at least 1, not {count}")
    return count


def storage_level(level: object) -> StorageLevel:
    """Where RDDs are kept.

    Raises:
        TypeError: it is no storage level.
    """
    if not isinstance(level, StorageLevel):
        raise TypeError(f"persist takes a StorageLevel, such as StorageLevel.MEMORY_ONLY, not {level!r}")
    return level
