"""PySpark's daemon, frugal: what it forks has PySpark imported, and does not search all of that for garbage.

PySpark's workers import it after the fork, from source in a zip (0.1 to 0.3 s), and collect garbage behind every task
(10 ms, by as many modules). Of Penstock, and of tests, nothing is imported here: workers do that as they always do.
"""

from __future__ import annotations

import gc

import pyspark.core.rdd
import pyspark.daemon
import pyspark.shuffle
import pyspark.worker

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
