"""What `make coverage` needs of the tests: it follows the threads that Python starts, and Flight's are C++'s."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.wire import endpoint


def trace_flight_threads() -> None:
    """Trace what an endpoint does on Flight's threads, too."""
    for owner, names in ((endpoint.Endpoint, ("do_action", "do_get")), (endpoint._TokenCheck, ("start_call",))):
        for name in names:
            setattr(owner, name, _traced(getattr(owner, name)))


def _traced(method: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        if sys.gettrace() is None:
            sys.settrace(threading.gettrace())
        return method(*arguments)

    return run
