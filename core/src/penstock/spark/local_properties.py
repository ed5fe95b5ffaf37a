"""Spark's local properties: saved at the start of the context, set on the job's thread for each output operation.

Adds the properties that tie Spark's jobs to a batch and an output operation. Each call concerns the calling thread
only; that must be an engine thread, because its earlier properties are overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

from penstock.runtime.clock import iso_time
from penstock.spark.checkpoint import ALL_MARKED_ANCESTORS

_BATCH_TIME = "spark.streaming.internal.batchTime"
_OUTPUT_OP_ID = "spark.streaming.internal.outputOpId"
#: Number of runs that have started the batch, including this one.
ATTEMPT = "spark.penstock.batch.attempt"


class LocalProperties:
    """The local properties of the thread that creates this object.

    Args:
        sc: the SparkContext.
        attempts: returns the number of runs that have started a batch, by batch time in ms.
    """

    def __init__(self, sc: SparkContext, attempts: Callable[[int], int] = lambda _time_ms: 1) -> None:
        #: Address of the dashboard, without a slash at its end; empty while none runs.
        self.ui_url = ""
        self._attempts = attempts
        self._scala: Any = sc._jsc.sc()
        self._saved = self._scala.getLocalProperties().clone()
        self._saved.setProperty("spark.job.interruptOnCancel", "false")
        self._saved.setProperty(ALL_MARKED_ANCESTORS, "true")
        self._saved.remove("spark.jobGroup.id")
        # Looked up once: each lookup of a class is a call as well.
        jvm: Any = sc._jvm
        self._reader = jvm.java.io.StringReader

    def _page_of(self, batch_time_ms: int) -> str:
        """The address of the batch's page. As text: the Spark UI allows links to its own pages only."""
        return f" {self.ui_url}/streaming/batch/?id={batch_time_ms}" if self.ui_url else ""

    def put(self, batch_time_ms: int, output_op_id: int) -> None:
        """Set the saved properties, and those of an output operation, on the calling thread.

        A fresh copy each time (four JVM calls): what the program sets in one operation does not leak into the next.
        """
        mine = self._saved.clone()
        mine.load(
            self._reader(
                f"{_BATCH_TIME}={batch_time_ms}\n{_OUTPUT_OP_ID}={output_op_id}\n"
                f"{ATTEMPT}={self._attempts(batch_time_ms)}\n"
                "spark.job.description="
                f"Streaming job from [output operation {output_op_id}, batch time {iso_time(batch_time_ms)}]"
                f"{self._page_of(batch_time_ms)}\n"
            )
        )
        self._scala.setLocalProperties(mine)
