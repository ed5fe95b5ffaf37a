"""Proof that a thread waits: where it waits is read from its stack, so that no test sleeps to see nothing happen."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from tests.helpers.waiting import wait_for

from penstock.runtime import clock
from penstock_testing import manual_clock

_WAITING = {threading.__file__, queue.__file__, clock.__file__, manual_clock.__file__}


def await_blocked(function: Callable[..., Any], threads: int = 1, *, inside: bool = False) -> None:
    """Wait until ``threads`` threads wait in ``function`` for a condition, an event, a queue or a clock.

    Args:
        function: the code that waits; a method by its class.
        threads: their number.
        inside: count threads that wait in a function called by it, too.
    """
    code = function.__code__

    def blocked() -> int:
        return sum(code in _codes(frame, inside) for frame in sys._current_frames().values())

    wait_for(lambda: blocked() >= threads, f"{threads} threads wait in {function.__qualname__}")


def threads_inside(function: Callable[..., Any]) -> int:
    """The number of threads that run a function, or one called by it: for waits that a stack does not show."""
    return sum(function.__code__ in _callers(frame) for frame in sys._current_frames().values())


def _callers(frame: FrameType | None) -> Iterator[Any]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _codes(frame: FrameType, inside: bool) -> Iterator[Any]:
    """What a waiting thread runs, from the innermost function that is not one of those that wait."""
    caller: FrameType | None = frame
    if frame.f_code.co_filename not in _WAITING:
        return
    while caller is not None and caller.f_code.co_filename in _WAITING:
        caller = caller.f_back
    while caller is not None:
        yield caller.f_code
        caller = caller.f_back if inside else None
