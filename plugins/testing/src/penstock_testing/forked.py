"""``in_fork`` runs a function in a forked process: code that ends or blocks its process affects the fork only."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable

#: The outcome of a process that exceeded its time limit.
HUNG = "hung"


def in_fork(function: Callable[[], bytes], limit_s: float) -> tuple[bytes | None, str]:
    """Run a function in a forked process.

    Returns:
        What it returned, and an empty text. ``None`` and how the process ended, if it returned nothing in time.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork beside other threads; those of libraries such as Arrow are idle here.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as file:
                file.write(function())
            status = 0
        finally:
            # Threads and exit handlers of a plugin do not delay the end.
            os._exit(status)
    os.close(writer)
    data, deadline, hangs = b"", time.monotonic() + limit_s, True
    while hangs and select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(reader, 65536)
        data += chunk
        hangs = bool(chunk)
    os.close(reader)
    if hangs:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if hangs:
        return None, HUNG
    if data:
        return data, ""
    return None, f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
