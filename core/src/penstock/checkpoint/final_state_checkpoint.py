"""``FinalStateCheckpoint``: checkpoints the state of a program when a graceful stop has run every batch.

The next run then need not recompute the state from older checkpointed RDDs and input that may be gone. The thread
starts with the engine, because an interpreter at exit may start no thread.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark import SparkContext

from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.spark import failure

if TYPE_CHECKING:
    from penstock.graph.stateful import StatefulDStream

log = get_logger("checkpoint")


class FinalStateCheckpoint:
    """Checkpoints states once. Any thread may call ``abandon``."""

    def __init__(self, sc: SparkContext, streams: Sequence[StatefulDStream]) -> None:
        self._sc = sc
        self._streams = streams
        self._group = f"penstock-final-state-{secrets.token_hex(4)}"
        # Set by a request to write or to end.
        self._requested = threading.Event()
        # Set when the thread has finished or is abandoned.
        self._over = threading.Event()
        self._is_done = False
        self._thread = EngineThread("final-state-checkpoint", self._run)

    def start(self) -> None:
        """Start the thread if there are states; ``write`` or ``abandon`` ends it."""
        if self._streams:
            self._thread.start()

    def write(self, deadline: float) -> None:
        """Checkpoint all states; return when done, abandoned, or at the deadline (monotonic seconds)."""
        if not self._streams:
            return
        self._requested.set()
        self._over.wait(max(deadline - time.monotonic(), 0))
        if not self._is_done:
            log.warning("states not checkpointed before the deadline", effect="the next run recomputes them")
            self.abandon()
            self._sc.cancelJobGroup(self._group)

    def abandon(self) -> None:
        """End the wait and checkpoint no further state."""
        self._over.set()
        self._requested.set()

    def _run(self) -> None:
        self._requested.wait()
        if self._over.is_set():
            return
        try:
            self._sc.setJobGroup(self._group, "final state checkpoint")
            for stream in self._streams:
                if self._over.is_set():
                    return
                self._checkpoint(stream)
            self._is_done = True
        finally:
            self._over.set()

    def _checkpoint(self, stream: StatefulDStream) -> None:
        try:
            stream.checkpoint_newest()
        # The next run recovers from an older RDD and recomputes the later states.
        except Exception as error:
            log.warning("state not checkpointed", operation=stream.call_site.short, reason=failure.reason(error))
