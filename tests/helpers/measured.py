"""What `make coverage` needs of the tests: it follows the threads that Python starts, and Flight's are C++'s."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock.wire import endpoint


def trace_flight_threads() -> None:
    """Trace what an endpoint does on Flight's threads, too."""
    for owner, names in ((endpoint.Endpoint, ("do_action", "do_get")), (endpoint._TokenCheck, ("start_call",))):
        for name in names:
            setattr(owner, name, _traced(getattr(owner, name)))


def _traced(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        _trace_this_thread()
        return method(*arguments)

    def generate(*arguments: Any) -> Iterator[Any]:
        # Python's state of a Flight thread, with its trace function, lasts for one call: here, of ``next``.
        _trace_this_thread()
        yield from method(*arguments)

    return generate if inspect.isgeneratorfunction(method) else call


def _trace_this_thread() -> None:
    if sys.gettrace() is None:
        sys.settrace(threading.gettrace())
