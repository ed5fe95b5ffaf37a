"""PySpark's daemon, frugal: what it forks has its modules imported, and does not search all of them for garbage.

Workers of PySpark's own daemon import PySpark, Penstock, its plugins and pandas (at the first ``pyarrow.array``) after
the fork: more than a second of processor time for a receiver. They also collect garbage after every task (10 ms, by as
many modules). Tests with the fixture ``pysparks_daemon``, or with ``PYSPARKS_DAEMON`` in a shared JVM, have PySpark's
own daemon.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import IO

import pandas  # noqa: F401, TID253
import pyspark.core.rdd
import pyspark.daemon
import pyspark.shuffle
import pyspark.worker

import penstock.receive.receiver_task
import penstock.worker.block_reader  # noqa: F401
import penstock_file  # noqa: F401
import penstock_rate  # noqa: F401
import penstock_socket  # noqa: F401
import penstock_synthetic  # noqa: F401
import penstock_ui  # noqa: F401

_run_task = pyspark.worker.main


def _run_measured_task(infile: IO[bytes], outfile: IO[bytes]) -> None:
    """Run a task of a worker that saves its coverage when the daemon ends it."""
    signal.signal(signal.SIGHUP, lambda *_: os._exit(1))  # the one of `make coverage` saves
    _run_task(infile, outfile)


if __name__ == "__main__":
    if "coverage" in sys.modules:
        pyspark.worker.main = _run_measured_task
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
