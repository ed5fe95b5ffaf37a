"""The process that Spark keeps for a source: how it learns that the query is over, and that it ends then.

Spark closes the connection when a query stops, which leads to the reader's ``stop``, and sends SIGTERM, which would end
the process before that. When the driver dies, the connection is closed and nothing is sent.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

# How long threads that a receiver has left running keep the process.
_LEAVE_S = 0.5

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The process, its parent, and whether a signal has come.
_process = _parent = 0
_is_signalled = False


def prepare() -> None:
    """Have signals wait for ``stop``, and the process end although threads of the receiver run. Main thread only."""
    global _process, _parent, _is_signalled
    if _process == os.getpid() or threading.current_thread() is not threading.main_thread():
        return
    _process, _parent, _is_signalled = os.getpid(), os.getppid(), False
    for number in _SIGNALS:
        # A handler, as what is ignored stays ignored in programs that the receiver starts.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)
    threading.Thread(target=_leave, name="penstock exit", daemon=True).start()


def is_query_over() -> bool:
    """Whether a signal has come or the driver's JVM has died: ``stop`` follows when the present call returns."""
    return _process == os.getpid() and (_is_signalled or os.getppid() != _parent)


def _note(number: int, _frame: FrameType | None) -> None:
    global _is_signalled
    if os.getpid() == _process:
        _is_signalled = True
    else:
        # A process that the receiver has forked.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _leave() -> None:
    """Wait for the end of the main thread, then end the process: Python waits for all other threads first."""
    threading.main_thread().join()
    time.sleep(_LEAVE_S)
    os._exit(1)
