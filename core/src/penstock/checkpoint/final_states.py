"""``LastStates``: the states as they are when a graceful stop has run every batch.

Owns the thread on which they are checkpointed, in a Spark job each that can be cancelled. It spares the next run from
making them again, from data that may be gone; without it that run goes on from the checkpoints there were. Started with
the engine, for an interpreter that ends may start no thread; used on the thread that stops it; ``abandon`` may come
from any.
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
    from penstock.graph.state.stateful import StatefulDStream

log = get_logger("checkpoint")


class LastStates:
    """Checkpoint states.

    Args:
        sc: runs the jobs.
        tables: the streams that have states.
    """

    def __init__(self, sc: SparkContext, tables: Sequence[StatefulDStream]) -> None:
        self._sc, self._tables = sc, tables
        self._group = f"penstock-last-states-{secrets.token_hex(4)}"
        # What the thread waits for: to write, or to end.
        self._asked = threading.Event()
        # Nobody waits any more: it is done, or it was abandoned.
        self._over = threading.Event()
        self._is_done = self._is_abandoned = False
        self._thread = EngineThread("last-states", self._run)

    def start(self) -> None:
        """Have the thread there, if there are states; ``write`` or ``abandon`` ends it."""
        if self._tables:
            self._thread.start()

    def write(self, deadline: float) -> None:
        """Return when all are written; at the deadline (monotonic seconds) and after ``abandon`` the rest is left."""
        if not self._tables:
            return
        self._asked.set()
        self._over.wait(max(deadline - time.monotonic(), 0))
        if not self._is_done:
            log.warning("states not checkpointed in time: the next run makes them again")
            self.abandon()
            self._sc.cancelJobGroup(self._group)

    def abandon(self) -> None:
        """Have nobody wait for it any longer, and begin no further one."""
        self._is_abandoned = True
        self._asked.set()
        self._over.set()

    def _run(self) -> None:
        self._asked.wait()
        if self._is_abandoned:
            return
        try:
            self._sc.setJobGroup(self._group, "states at the end")
            for table in self._tables:
                if self._is_abandoned:
                    return
                self._checkpoint(table)
            self._is_done = True
        finally:
            self._over.set()

    def _checkpoint(self, table: StatefulDStream) -> None:
        try:
            table.checkpoint_youngest()
        # There is an older one, and what is behind it is made again.
        except Exception as error:
            log.warning("state not checkpointed", operation=table.call_site.short, reason=failure.reason(error))
