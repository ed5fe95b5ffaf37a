"""``StopRequests``: SIGTERM and Ctrl-C of this process, and the shutdown of the JVM, while a context is active.

A signal handler runs between two steps of the main thread, which may hold any lock, so it only queues the signal's
number. Another thread reports it.

Under spark-submit a SIGTERM reaches the JVM, which would stop the SparkContext at once and lose unprocessed data. Two
shutdown hooks run before Spark's own: one notifies this process, the other waits for its end.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

if TYPE_CHECKING:
    from pyspark import SparkContext

log = get_logger("signals")

# Hadoop's manager runs hooks one after the other, the highest priority first; Spark's hooks have priority 40.
_NOTIFY, _WAIT = 92, 91
_NOTIFY_S = 5


class StopRequests:
    """Reports SIGTERM and SIGINT to ``on_signal``, on a thread of its own, and still calls the program's own handlers.

    A shutdown of the JVM is reported as a SIGTERM; a signal that reaches both processes is reported once. Python sets
    handlers on the main thread only. When ``restore`` is called elsewhere, the handlers stay until the next signal,
    which restores its previous handler and raises the signal again.
    """

    def __init__(self, on_signal: Callable[[int], object]) -> None:
        self._on_signal = on_signal
        # A SimpleQueue is reentrant: a handler may interrupt another put. None ends the thread.
        self._queue: SimpleQueue[int | None] = SimpleQueue()
        self._thread: EngineThread | None = None
        self._closed = False
        self._previous: dict[int, Any] = {}
        # Counted down by the JVM's shutdown, or by `close`.
        self._latch: Any = None
        self._manager: Any = None
        self._hooks: list[Any] = []
        # The processes that received a signal, guarded by the lock.
        self._receivers: set[str] = set()
        self._lock = threading.Lock()

    def install(self) -> None:
        """Set the handlers; signals that the program ignores stay ignored. Does nothing off the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._thread = EngineThread("streaming-signals", self._report)
        self._thread.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            previous = signal.getsignal(number)
            if previous in (signal.SIG_IGN, None):
                log.info("signal handler not set", signal=number.name, reason="ignored or handled outside Python")
                continue
            if _is_programs(previous):
                log.info("signal handler set before the program's own", signal=number.name)
            self._previous[number] = previous
            signal.signal(number, self._handle)

    def override_pysparks_interrupt(self) -> None:
        """Make Ctrl-C a plain KeyboardInterrupt.

        PySpark's handler first cancels all jobs, including the receivers', and loses their unprocessed data.
        """
        if threading.current_thread() is threading.main_thread() and _is_pysparks(signal.getsignal(signal.SIGINT)):
            self._previous[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)

    def install_hooks(self, sc: SparkContext, timeout_s: float) -> None:
        """Set the hooks in the JVM; a failure is logged. ``timeout_s`` limits the JVM's wait for this process."""
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
        EngineThread("spark-shutdown", self._await_shutdown).start()

    def restore(self) -> None:
        """Restore the previous handlers, except where the program has set its own since. Main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return
        while self._previous:
            number, previous = self._previous.popitem()
            if signal.getsignal(number) in (self._handle, signal.default_int_handler):
                signal.signal(number, previous)
        self.close()

    def close(self) -> None:
        """Stop reporting, after all queued signals were reported, and remove the hooks. Idempotent.

        The hooks stay if the JVM is shutting down and waits for this process.
        """
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.finish()
        hooks, self._hooks = self._hooks, []
        try:
            for hook in hooks:
                self._manager.removeShutdownHook(hook)
            if hooks:
                self._latch.countDown()
        except Exception as error:
            log.debug("shutdown hook of the JVM not removed", reason=type(error).__name__)

    def _handle(self, number: int, frame: Any) -> None:
        previous: Any = self._previous.get(number)
        if not self._closed:
            self._queue.put(number)
        # A handler that the program set later may call this one.
        elif signal.getsignal(number) == self._handle:
            signal.signal(number, self._previous.pop(number))
            signal.raise_signal(number)
            return
        if _is_programs(previous):
            previous(number, frame)

    def _report(self) -> None:
        while (number := self._queue.get()) is not None:
            try:
                self._receive(number, "process", "jvm")
            except Exception:
                log.exception("signal not handled", signal=signal.Signals(number).name)

    def _await_shutdown(self) -> None:
        try:
            # `await` is a keyword of Python.
            getattr(self._latch, "await")()
        except Exception as error:
            log.debug("JVM gone", reason=type(error).__name__)
            return
        if not self._closed:
            self._receive(signal.SIGTERM, "jvm", "process")

    def _receive(self, number: int, receiver: str, other: str) -> None:
        """Report a signal, unless it is the first one of its receiver and the other one got it already."""
        with self._lock:
            is_repeated = other in self._receivers and receiver not in self._receivers
            self._receivers.add(receiver)
        if not is_repeated:
            self._on_signal(number)


def _is_programs(handler: Any) -> bool:
    return callable(handler) and handler is not signal.default_int_handler and not _is_pysparks(handler)


def _is_pysparks(handler: Any) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
