"""Functions with or without the batch time.

Owns the question how many arguments a function of the program takes, answered from its signature: partials, bound
methods and objects with ``__call__`` count as what they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def takes_time(function: Callable[..., Any], without: int, message: str) -> bool:
    """Say whether ``function`` takes the batch time before its other arguments.

    Args:
        function: of the program.
        without: how many arguments it takes without the time.
        message: of the error.

    Returns:
        True when it takes one argument more than ``without``.

    Raises:
        TypeError: it is not callable.
        AssertionError: it takes neither that many nor one more (as PySpark raises it).
    """
    if not callable(function):
        raise TypeError(f"{message}: got {type(function).__name__}, which cannot be called")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # a builtin that does not tell: without the time, as most are
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    at_most = without + 1 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)
    if required <= without <= at_most:
        return False
    if required <= without + 1 <= at_most:
        return True
    raise AssertionError(message)
