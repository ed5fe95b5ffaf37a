"""``CheckpointWriter``: writes checkpoints on a thread of its own.

Owns that thread and the one checkpoint that waits: a younger one takes its place, for it knows all that the older knew.
Never holds up who hands one over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.checkpoint.manifest import Checkpoint
from penstock.checkpoint.store import CheckpointStore
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("checkpoint")

# Tries to write one (as Spark).
_TRIES = 3


class CheckpointWriter:
    """Write checkpoints.

    Args:
        store: writes one.
        clock: of the engine.
        on_written: is told the oldest that is kept, when one was written; on the writer's thread.
        on_failures: is told how many in a row could not be written, and why the last could not; on the writer's thread.
    """

    def __init__(
        self,
        store: CheckpointStore,
        clock: Clock,
        on_written: Callable[[Checkpoint], object],
        on_failures: Callable[[int, BaseException], object],
    ) -> None:
        self._store, self._clock, self._on_written, self._on_failures = store, clock, on_written, on_failures
        self._next: Checkpoint | Exception | None = None
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = EngineThread("checkpoint-writer", self._run)
        #: When the last one that was written was handed over, ms; ``None`` before the first.
        self.written_ms: int | None = None
        #: Could not be written since then.
        self.failures = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, checkpoint: Checkpoint) -> None:
        """Write it soon, in place of one that waits; returns at once."""
        with self._changed:
            self._next = checkpoint
            self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """Count one that could not be made, unless one waits that was; returns at once."""
        with self._changed:
            self._next = self._next or error
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> bool:
        """Write the one that waits, and end; say whether that was done in time."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        return self._thread.finish(timeout_s)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            self._write(taken)

    def _take(self) -> Checkpoint | Exception | None:
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None or self._stopping)
            taken, self._next = self._next, None
            return taken

    def _write(self, taken: Checkpoint | Exception) -> None:
        error = taken if isinstance(taken, Exception) else self._tried(taken)
        if error is None:
            return
        self.failures += 1
        try:
            self._on_failures(self.failures, error)
        # The next one may be written.
        except Exception:
            log.exception("failures of checkpoints could not be told", in_a_row=self.failures)

    def _tried(self, checkpoint: Checkpoint) -> Exception | None:
        """Write one; why it could not be, if so."""
        began = time.monotonic()
        for attempt in range(1, _TRIES + 1):
            try:
                oldest = self._store.write(checkpoint)
            except Exception as caught:
                error = caught
                log.info(
                    "checkpoint not written, trying again",
                    number=checkpoint.number,
                    attempt=attempt,
                    reason=str(caught),
                )
            else:
                self.written_ms, self.failures = checkpoint.written_ms, 0
                log.debug(
                    "checkpoint written", number=checkpoint.number, took_ms=round((time.monotonic() - began) * 1000, 1)
                )
                self._told(checkpoint.number, oldest)
                return None
        return error

    def _told(self, number: int, oldest: Checkpoint) -> None:
        try:
            self._on_written(oldest)
        # What cannot be cleaned up stays for the next time.
        except Exception as error:
            log.warning("old files not cleaned up", number=number, reason=str(error))
