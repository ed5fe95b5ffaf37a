"""The engine's own threads, and errors of callbacks on them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.runtime.log import get_logger

log = get_logger("threads")


class EngineThread(threading.Thread):
    """A daemon thread of the engine; code that runs on one of them must not wait for it to end."""

    def __init__(self, name: str, target: Callable[[], object]) -> None:
        super().__init__(name=name, target=target, daemon=True)

    def finish(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread to end and return whether it has; returns false at once on the thread itself."""
        if self is threading.current_thread() or not self.ident:
            return False
        self.join(timeout_s)
        return not self.is_alive()


def on_engine_thread() -> bool:
    """Whether the caller runs on one of the engine's threads."""
    return isinstance(threading.current_thread(), EngineThread)


def contain_errors(action: Callable[[], object], on_error: Callable[[BaseException], object]) -> None:
    """Call ``action`` and pass its error to ``on_error``, whose own error is logged: no callback may end a loop."""
    try:
        action()
    except BaseException as error:
        try:
            on_error(error)
        except BaseException as second:
            log.error("error callback failed", thread=threading.current_thread().name, exc_info=second)
