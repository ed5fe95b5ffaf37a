"""A JVM that is asked to end waits for this Python process, before Spark's own shutdown hooks run.

Under spark-submit a SIGTERM reaches the JVM, which would stop the SparkContext at once and lose what a graceful stop
processes. Owns two hooks in the JVM, and a thread that waits there for the first to run.
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

# Hadoop's manager runs hooks one after the other, the highest priority first; those of Spark have 40.
_NOTIFY, _WAIT = 92, 91
_NOTIFY_S = 5


class JvmShutdown:
    """Report that the JVM was asked to end, and have it wait for the end of this process.

    Args:
        on_shutdown: called on a thread of its own.
    """

    def __init__(self, on_shutdown: Callable[[], object]) -> None:
        self._on_shutdown = on_shutdown
        # Counted down by the JVM when it was asked to end, or by `close`.
        self._latch: Any = None
        self._manager: Any = None
        self._hooks: list[Any] = []
        self._closed = False

    def install(self, sc: SparkContext, timeout_s: float) -> None:
        """Set the hooks; a failure is logged.

        Args:
            sc: names the JVM.
            timeout_s: the JVM waits no longer for this process.
        """
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
                # A Runnable that calls one method, without a server for calls from Java to Python.
                self._hooks.append(java.beans.EventHandler.create(runnable, target, method))
                self._manager.addShutdownHook(self._hooks[-1], priority, limit_s, seconds)
        # Py4J has several errors, and a reduced Java may lack classes.
        except Exception as error:
            log.info("shutdown hook of the JVM not set", reason=type(error).__name__)
            return
        EngineThread("spark-shutdown", self._await).start()

    def close(self) -> None:
        """Remove the hooks, unless the JVM is ending: then it waits for this process. Can be repeated."""
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
            # `await` is a keyword.
            getattr(self._latch, "await")()
        except Exception as error:
            log.debug("JVM gone", reason=type(error).__name__)
            return
        if not self._closed:
            self._on_shutdown()


class StopRequests(StopSignals):
    """Reports signals of this process, and as a SIGTERM that the JVM was asked to end.

    A signal to the whole process group reaches both, and is reported once.

    Args:
        on_signal: called with the number of each signal, on a thread of its own.
    """

    def __init__(self, on_signal: Callable[[int], object]) -> None:
        super().__init__(self._on_own)
        self._notify = on_signal
        self._jvm = JvmShutdown(self._on_jvm)
        # Whether this process got a signal, and the JVM; and their guard.
        self._own_came = False
        self._jvm_came = False
        self._guard = threading.Lock()

    def install_all(self, sc: SparkContext, timeout_s: float) -> None:
        """Set the handlers of this process, and the hooks in the JVM.

        Args:
            sc: names the JVM.
            timeout_s: the JVM waits no longer for this process.
        """
        self.install()
        self._jvm.install(sc, timeout_s)

    def close(self) -> None:
        super().close()
        self._jvm.close()

    def _on_own(self, number: int) -> None:
        with self._guard:
            is_known = self._jvm_came and not self._own_came
            self._own_came = True
        if not is_known:
            self._notify(number)

    def _on_jvm(self) -> None:
        with self._guard:
            self._jvm_came = True
            is_known = self._own_came
        if not is_known:
            self._notify(signal.SIGTERM)
