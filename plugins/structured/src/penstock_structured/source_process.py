"""Ends the process that Spark runs for a source, once the query is over.

When a query stops, Spark closes the connection, which leads to the reader's ``stop``, and sends SIGTERM, which would
end the process before that. When the driver dies, the connection is closed and no signal comes. When the SparkContext
stops and the query has no data, Spark neither closes the connection nor sends a signal. It does delete its local
directories, whose paths are in the environment of this process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

# Interval at which the process checks whether the query is over.
_WATCH_S = 0.1
# Maximum lifetime of the process after the stop, for its main thread and for threads that a receiver left running.
_LEAVE_S = 0.5

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The process id, its parent's id, the signal received, and Spark's local directories.
_process = _parent = _signal = 0
_local_dirs: tuple[Path, ...] = ()


def prepare(stop: Callable[[], object]) -> None:
    """Make the process end in an orderly way when the query is over, even if receiver threads still run.

    Call it on the main thread.

    Args:
        stop: stops the source; called on another thread, possibly at the same time as on the main thread.
    """
    global _process, _parent, _signal, _local_dirs
    if _process == os.getpid() or threading.current_thread() is not threading.main_thread():
        return
    _process, _parent, _signal = os.getpid(), os.getppid(), 0
    paths = (Path(name) for name in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if name)
    _local_dirs = tuple(path for path in paths if path.exists())
    for number in _SIGNALS:
        # A handler instead of SIG_IGN, because programs that the receiver starts would inherit SIG_IGN.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)
    threading.Thread(target=_end, args=(stop,), name="penstock end", daemon=True).start()


def end_reason() -> str:
    """Why the query is over; empty while it runs."""
    if _process != os.getpid():
        return ""
    if _signal:
        return f"its process was sent {signal.Signals(_signal).name}"
    if os.getppid() != _parent:
        return "the driver's JVM has ended"
    if _local_dirs and not any(directory.exists() for directory in _local_dirs):
        return "its SparkContext was stopped"
    return ""


def _note(number: int, _frame: FrameType | None) -> None:
    global _signal
    if os.getpid() == _process:
        _signal = number
    else:
        # This is a process that the receiver has forked.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _end(stop: Callable[[], object]) -> None:
    """Wait until the query is over or the main thread has ended; then stop the source and end the process.

    Needed because the main thread may wait for a call from Spark that never comes, and Python waits for all threads
    before it exits.
    """
    main = threading.main_thread()
    try:
        while main.is_alive() and not end_reason():
            main.join(_WATCH_S)
        stop()
        # Give the main thread time to report the reason to Spark.
        time.sleep(_LEAVE_S)
    finally:
        os._exit(1)
