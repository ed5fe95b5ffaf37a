"""Checks of what a program passes to an operator, made when it is passed: later it would fail inside a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from penstock.errors import shown

F = TypeVar("F", bound=Callable[..., Any])


def require_callable(name: str, function: F) -> F:
    """The function passed as argument ``name``.

    Raises:
        TypeError: it is not callable.
    """
    if not callable(function):
        raise TypeError(f"{name} must be a function, not {shown(function)}")
    return function


def require_num_partitions(count: object) -> int:
    """A number of partitions.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is not positive.
    """
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"numPartitions must be a whole number, not {shown(count)}")
    if count < 1:
        raise ValueError(f"numPartitions must be at least 1, not {count}")
    return count


def takes_time(function: Callable[..., Any], without: int, message: str) -> bool:
    """Whether ``function`` takes the batch time before its other arguments, according to its signature.

    Args:
        function: passed by the program; partials, bound methods and objects with ``__call__`` count as what they are.
        without: its number of arguments without the time.
        message: text of the error.

    Raises:
        TypeError: it is not callable.
        AssertionError: it takes neither ``without`` arguments nor one more (as PySpark raises it).
    """
    if not callable(function):
        raise TypeError(f"{message}: got {type(function).__name__}, which cannot be called")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # a builtin without a signature: most take no time
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

    # A recovered run knows an output by the name of the program's function.
    @wraps(function)
    def without_time(_time: Any, *arguments: Any) -> Any:
        return function(*arguments)

    return without_time
