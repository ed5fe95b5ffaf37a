"""The engine's own threads.

Owns one class, by which code can tell that it runs on a thread of the engine (a listener's, a job's, a loop's) and
must therefore not wait for that thread to end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class EngineThread(threading.Thread):
    """A daemon thread that belongs to the engine."""

    def __init__(self, name: str, target: Callable[[], object]) -> None:
        super().__init__(name=name, target=target, daemon=True)

    def finish(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread to end, unless it is the caller's own; say whether it has ended."""
        if self is threading.current_thread() or not self.ident:
            return False
        self.join(timeout_s)
        return not self.is_alive()


def on_engine_thread() -> bool:
    """Say whether the caller runs on one of the engine's threads."""
    return isinstance(threading.current_thread(), EngineThread)
