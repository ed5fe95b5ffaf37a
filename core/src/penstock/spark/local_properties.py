"""Spark's local properties of a thread: saved when the context starts, put in force for each job.

Owns the two internal properties that tie Spark's jobs to a batch and an output operation. Every call concerns the
calling thread only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext

_BATCH_TIME = "spark.streaming.internal.batchTime"
_OUTPUT_OP_ID = "spark.streaming.internal.outputOpId"


class LocalProperties:
    """The properties of the thread that makes this object.

    Args:
        sc: whose properties.
    """

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self._saved = self._copy(self._scala().getLocalProperties())

    @contextmanager
    def job(self, batch_time_ms: int, output_op_id: int) -> Iterator[None]:
        """Run a job's Spark jobs under the saved properties and its own; put the thread's back afterwards."""
        scala = self._scala()
        before = scala.getLocalProperties()
        mine = self._copy(self._saved)
        mine.setProperty(_BATCH_TIME, str(batch_time_ms))
        mine.setProperty(_OUTPUT_OP_ID, str(output_op_id))
        mine.setProperty("spark.job.interruptOnCancel", "false")
        mine.setProperty(
            "spark.job.description",
            f"Streaming job from [output operation {output_op_id}, batch time {batch_time_ms} ms]",
        )
        mine.remove("spark.jobGroup.id")
        scala.setLocalProperties(mine)
        try:
            yield
        finally:
            scala.setLocalProperties(before)

    def _scala(self) -> Any:
        return self._sc._jsc.sc()

    def _copy(self, properties: Any) -> Any:
        jvm: Any = self._sc._jvm
        copy = jvm.java.util.Properties()
        copy.putAll(properties)
        return copy
