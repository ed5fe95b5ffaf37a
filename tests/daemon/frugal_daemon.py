"""PySpark's daemon, frugal: what it forks has its modules imported, and does not search all of them for garbage.

Workers of PySpark's own daemon import PySpark and Penstock after the fork (a second of processor time for a receiver),
and collect garbage after every task (10 ms, by as many modules). Tests with the fixture ``pysparks_daemon``, or with
``PYSPARKS_DAEMON`` in a shared JVM, have PySpark's own daemon.
"""

from __future__ import annotations

import gc

import pyspark.core.rdd
import pyspark.daemon
import pyspark.shuffle
import pyspark.worker

import penstock.receive.receiver_task
import penstock.worker.block_reader  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
