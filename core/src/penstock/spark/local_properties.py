"""Spark's local properties of a thread: saved when the context starts, put in force for each output operation.

Owns the internal properties that tie Spark's jobs to a batch and an output operation. Every call concerns the calling
thread only, and that must be one of the engine's: what was in force there before is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

from penstock.spark.checkpoint import ALL_MARKED_ANCESTORS

_BATCH_TIME = "spark.streaming.internal.batchTime"
_OUTPUT_OP_ID = "spark.streaming.internal.outputOpId"
#: How many runs have begun the batch, this one among them.
ATTEMPT = "spark.penstock.batch.attempt"


class LocalProperties:
    """The properties of the thread that makes this object.

    Args:
        sc: whose properties.
        attempts: how many runs have begun a batch.
    """

    def __init__(self, sc: SparkContext, attempts: Callable[[int], int] = lambda _time_ms: 1) -> None:
        self._attempts = attempts
        self._scala: Any = sc._jsc.sc()
        self._saved = self._scala.getLocalProperties().clone()
        self._saved.setProperty("spark.job.interruptOnCancel", "false")
        self._saved.setProperty(ALL_MARKED_ANCESTORS, "true")
        self._saved.remove("spark.jobGroup.id")

    def put(self, batch_time_ms: int, output_op_id: int) -> None:
        """Have what the calling thread runs in Spark be an output operation's, under the saved properties.

        Six calls of the JVM: a fresh copy, so that what the program sets in one operation does not reach the next.
        """
        mine = self._saved.clone()
        mine.setProperty(_BATCH_TIME, str(batch_time_ms))
        mine.setProperty(_OUTPUT_OP_ID, str(output_op_id))
        mine.setProperty(ATTEMPT, str(self._attempts(batch_time_ms)))
        mine.setProperty(
            "spark.job.description",
            f"Streaming job from [output operation {output_op_id}, batch time {batch_time_ms} ms]",
        )
        self._scala.setLocalProperties(mine)
