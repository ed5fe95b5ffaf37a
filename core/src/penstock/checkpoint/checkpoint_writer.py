"""``CheckpointWriter``: writes checkpoints on a thread of its own.

At most one checkpoint waits. A younger one replaces it, because it covers everything in the older one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff, retry
from penstock.runtime.threads import EngineThread

log = get_logger("checkpoint")

# Attempts after the first (as Spark), and the delays before them.
_RETRIES = 2
_FIRST_DELAY_MS = 10
_LONGEST_DELAY_MS = 100


class CheckpointWriter:
    """Writes checkpoints.

    After a write its thread calls ``on_written`` with the oldest retained checkpoint; after a failure, ``on_failures``
    with the number of consecutive failures and the error.
    """

    def __init__(
        self,
        store: CheckpointStore,
        on_written: Callable[[Checkpoint], object],
        on_failures: Callable[[int, BaseException], object],
    ) -> None:
        self._store = store
        self._on_written = on_written
        self._on_failures = on_failures
        self._next: Checkpoint | Exception | None = None
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = EngineThread("checkpoint-writer", self._run)
        #: Consecutive checkpoints that could not be written.
        self.failures = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, checkpoint: Checkpoint) -> None:
        """Queue a checkpoint, which replaces a waiting one; return at once."""
        with self._changed:
            self._next = checkpoint
            self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """Count a checkpoint that could not be collected, unless another one waits; return at once."""
        with self._changed:
            self._next = self._next or error
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting checkpoint and stop; return whether the thread ended within the timeout."""
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
            taken = self._next
            self._next = None
            return taken

    def _write(self, taken: Checkpoint | Exception) -> None:
        if isinstance(taken, Exception):
            self._failed(taken)
            return
        number = taken.number
        began = time.monotonic()
        try:
            oldest = retry(
                lambda: self._store.write(taken),
                Backoff(_FIRST_DELAY_MS, _LONGEST_DELAY_MS),
                retries=_RETRIES,
                on_retry=lambda error, _ms: log.info("checkpoint write retried", number=number, reason=str(error)),
            )
        except Exception as error:
            self._failed(error)
            return
        self.failures = 0
        log.debug("checkpoint written", number=number, took_ms=round((time.monotonic() - began) * 1000, 1))
        try:
            self._on_written(oldest)
        # The next write tries again.
        except Exception as error:
            log.warning("old files not cleaned up", number=number, reason=str(error))

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        try:
            self._on_failures(self.failures, error)
        # The thread must survive for the next checkpoint.
        except Exception:
            log.exception("checkpoint failure not reported", consecutive_failures=self.failures)
