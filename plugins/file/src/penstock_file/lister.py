"""``Lister``: the thread on which a file stream lists its directory.

``ask`` runs on the generator's thread and returns in time, however long a listing takes. The files of a slow listing
go to a later batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

# Maximum time that ``stop`` waits for the thread, whose file system may hang.
_JOIN_S = 2.0


class Lister:
    """Runs listings on request.

    Args:
        name: thread name.
        look: lists once; an ``ask`` that waits for it raises its error.
    """

    def __init__(self, name: str, look: Callable[[], None]) -> None:
        self._look = look
        self._asked = self._answered = 0
        self._error: Exception | None = None
        self._changed = threading.Condition()
        #: Set by ``stop``; ``look`` waits on it instead of sleeping.
        self.stopped = threading.Event()
        self._thread = threading.Thread(name=name, target=self._run, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, timeout_s: float) -> bool:
        """Request a listing and wait for it; return whether it ended within the timeout.

        Raises:
            Exception: the error of ``look``.
        """
        with self._changed:
            self._asked += 1
            ticket = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answered >= ticket or self.stopped.is_set(), timeout_s)
            if self._answered < ticket:
                return False
            if self._error is not None:
                raise self._error
            return True

    def stop(self) -> None:
        """End the thread. Idempotent; may be called before ``start``."""
        self.stopped.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked > self._answered or self.stopped.is_set())
                ticket = self._asked
            if self.stopped.is_set():
                return
            error: Exception | None = None
            try:
                self._look()
            except Exception as caught:
                error = caught
            with self._changed:
                self._answered = ticket
                self._error = error
                self._changed.notify_all()
