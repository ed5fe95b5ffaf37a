"""What `make coverage` needs of the tests: it follows the threads that Python starts, and Flight's are C++'s."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.wire import endpoint


def trace_flight_threads() -> None:
    """Trace what an endpoint does on Flight's threads, too."""
    # Flight calls the check of the token on a thread of its own; nothing else names it.
    for owner, names in ((endpoint.Endpoint, ("do_action", "do_get")), (endpoint._TokenCheck, ("start_call",))):
        for name in names:
            setattr(owner, name, _traced(getattr(owner, name)))


def _traced(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with _trace():
            return method(*arguments)

    def generate(*arguments: Any) -> Iterator[Any]:
        results = method(*arguments)
        while True:
            # Python's state of a Flight thread lasts for one call: here, of ``next``.
            with _trace():
                try:
                    result = next(results)
                except StopIteration:
                    return
            yield result

    return generate if inspect.isgeneratorfunction(method) else call


@contextmanager
def _trace() -> Iterator[None]:
    """Trace this thread, unless it is traced; nothing of the trace function is left when the thread's state ends."""
    if sys.gettrace() is not None:
        yield
        return
    sys.settrace(threading.gettrace())
    try:
        yield
    finally:
        sys.settrace(None)
