"""Shutdown hooks that make the JVM wait for the graceful stop of this Python process.

Under spark-submit a SIGTERM reaches the JVM, which would stop the SparkContext at once and lose unprocessed data. Two
hooks run before Spark's own: one notifies this process, the other waits for its end.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.runtime.log import get_logger
from penstock.runtime.stop_signals import StopSignals
from penstock.runtime.threads import EngineThread

if TYPE_CHECKING:
    from pyspark import SparkContext

log = get_logger("spark")

# Hadoop's manager runs hooks one after the other, the highest priority first; Spark's hooks have priority 40.
_NOTIFY, _WAIT = 92, 91
_NOTIFY_S = 5


class JvmShutdown:
    """Reports the shutdown of the JVM to ``on_shutdown``, on a thread of its own; the JVM waits for this process."""

    def __init__(self, on_shutdown: Callable[[], object]) -> None:
        self._on_shutdown = on_shutdown
        # Counted down by the JVM's shutdown, or by `close`.
        self._latch: Any = None
        self._manager: Any = None
        self._hooks: list[Any] = []
        self._closed = False

    def install(self, sc: SparkContext, timeout_s: float) -> None:
        """Set the hooks; a failure is logged. ``timeout_s`` limits the JVM's wait for this process."""
        jvm: Any = sc._jvm
        try:
            java = jvm.java
            runnable = java.lang.Class.forName("java.lang.Runnable")
            this_process = java.lang.ProcessHandle.of(os.getpid()).get()
            self._latch = java.util.concurrent.CountDownLatch(1)
            self._manager = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
            seconds = java.util.concurrent.TimeUnit.SECONDS
            for target, method, priority, limit_s in (
                (self._latch, "countDown", _NOTIFY, _NOTIFY_S),
                (this_process.onExit(), "join", _WAIT, round(timeout_s) + _NOTIFY_S),
            ):
                # A Runnable that calls one Java method needs no server for calls from Java to Python.
                self._hooks.append(java.beans.EventHandler.create(runnable, target, method))
                self._manager.addShutdownHook(self._hooks[-1], priority, limit_s, seconds)
        # Py4J has several errors, and a reduced Java may lack classes.
        except Exception as error:
            log.info("shutdown hook of the JVM not set", reason=type(error).__name__)
            return
        EngineThread("spark-shutdown", self._await).start()

    def close(self) -> None:
        """Remove the hooks, unless the JVM is shutting down and waits for this process. Can be repeated."""
        if self._closed or not self._hooks:
            return
        self._closed = True
        try:
            for hook in self._hooks:
                self._manager.removeShutdownHook(hook)
            self._latch.countDown()
        except Exception as error:
            log.debug("shutdown hook of the JVM not removed", reason=type(error).__name__)

    def _await(self) -> None:
        try:
            # `await` is a keyword of Python.
            getattr(self._latch, "await")()
        except Exception as error:
            log.debug("JVM gone", reason=type(error).__name__)
            return
        if not self._closed:
            self._on_shutdown()


class StopRequests(StopSignals):
    """Reports signals of this process, and a shutdown of the JVM as a SIGTERM; once if a signal reaches both."""

    def __init__(self, on_signal: Callable[[int], object]) -> None:
        super().__init__(lambda number: self._receive(number, "process", "jvm"))
        self._notify = on_signal
        self._jvm = JvmShutdown(lambda: self._receive(signal.SIGTERM, "jvm", "process"))
        self._receivers: set[str] = set()
        self._guard = threading.Lock()

    def install_all(self, sc: SparkContext, timeout_s: float) -> None:
        """Set the handlers of this process, and the hooks in the JVM; see ``JvmShutdown.install``."""
        self.install()
        self._jvm.install(sc, timeout_s)

    def close(self) -> None:
        super().close()
        self._jvm.close()

    def _receive(self, number: int, receiver: str, other: str) -> None:
        """Report a signal, unless it is the first one of its receiver and the other one got it already."""
        with self._guard:
            is_repeated = other in self._receivers and receiver not in self._receivers
            self._receivers.add(receiver)
        if not is_repeated:
            self._notify(number)
