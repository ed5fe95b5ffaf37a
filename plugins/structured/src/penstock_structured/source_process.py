"""The process that Spark keeps for a source: how it learns that the query is over, and that it ends then.

Spark closes the connection when a query stops, which leads to the reader's ``stop``, and sends SIGTERM, which would end
the process before that. When the driver dies, the connection is closed and nothing is sent. When the SparkContext
stops and the query has no data, Spark neither closes nor sends anything, but it deletes its local directories, whose
paths are in the environment of this process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

# How often the process looks whether the query is over.
_WATCH_S = 0.1
# How long the main thread, and threads that a receiver has left running, keep the process after the stop.
_LEAVE_S = 0.5

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The process, its parent, the signal that has come, and Spark's local directories.
_process = _parent = _signal = 0
_local_dirs: tuple[Path, ...] = ()


def prepare(stop: Callable[[], object]) -> None:
    """Have the process end when the query is over, in order, although threads of the receiver run. Main thread only.

    Args:
        stop: stops the source; called on another thread, possibly while the main thread calls it, too.
    """
    global _process, _parent, _signal, _local_dirs
    if _process == os.getpid() or threading.current_thread() is not threading.main_thread():
        return
    _process, _parent, _signal = os.getpid(), os.getppid(), 0
    paths = (Path(each) for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each)
    _local_dirs = tuple(each for each in paths if each.exists())
    for number in _SIGNALS:
        # A handler, as what is ignored stays ignored in programs that the receiver starts.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)
    threading.Thread(target=_end, args=(stop,), name="penstock end", daemon=True).start()


def end_reason() -> str:
    """Why the query is over; empty while it is not."""
    if _process != os.getpid():
        return ""
    if _signal:
        return f"its process was sent {signal.Signals(_signal).name}"
    if os.getppid() != _parent:
        return "the driver's JVM has ended"
    if _local_dirs and not any(each.exists() for each in _local_dirs):
        return "its SparkContext was stopped"
    return ""


def _note(number: int, _frame: FrameType | None) -> None:
    global _signal
    if os.getpid() == _process:
        _signal = number
    else:
        # A process that the receiver has forked.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _end(stop: Callable[[], object]) -> None:
    """Wait until the query is over or the main thread has ended; then stop the source and end the process.

    The main thread may wait for a call of Spark's that never comes, and Python waits for all threads before it ends.
    """
    main = threading.main_thread()
    try:
        while main.is_alive() and not end_reason():
            main.join(_WATCH_S)
        stop()
        # The main thread may still tell Spark why.
        time.sleep(_LEAVE_S)
    finally:
        os._exit(1)
