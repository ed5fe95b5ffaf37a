"""Checks the arguments of operators when the program passes them, because a later failure would be inside a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from penstock.errors import shown

F = TypeVar("F", bound=Callable[..., Any])


def require_callable(name: str, function: F) -> F:
    """Check that argument ``name`` is callable, and return it."""
    if not callable(function):
        raise TypeError(f"{name} must be a function, not {shown(function)}")
    return function


def require_num_partitions(count: object) -> int:
    """Check a number of partitions, and return it."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"numPartitions must be a whole number, not {shown(count)}")
    if count < 1:
        raise ValueError(f"numPartitions must be at least 1, not {count}")
    return count


def takes_time(function: Callable[..., Any], without: int, message: str) -> bool:
    """Whether ``function`` takes the batch time before its other arguments, according to its signature.

    Raises an AssertionError, as PySpark does, if it takes neither ``without`` arguments nor one more.
    """
    if not callable(function):
        raise TypeError(f"{message}: got {type(function).__name__}, which cannot be called")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # most builtins without a signature take no time
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    at_most = without + 1 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)
    if required <= without <= at_most:
        return False
    if required <= without + 1 <= at_most:
        return True
    raise AssertionError(message)


def with_time(function: Callable[..., Any], without: int, message: str) -> Callable[..., Any]:
    """A function of the batch time and the other arguments; see ``takes_time``."""
    if takes_time(function, without, message):
        return function

    # A recovered run recognizes an output by the name of the program's function.
    @wraps(function)
    def without_time(_time: Any, *arguments: Any) -> Any:
        return function(*arguments)

    return without_time
