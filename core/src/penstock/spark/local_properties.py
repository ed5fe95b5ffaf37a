"""Spark's local properties: saved at the start of the context, and set on the job's thread per output operation.

Adds the properties that relate Spark's jobs to a batch and an output operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from pyspark import SparkContext

from penstock.runtime.clock import iso_time
from penstock.spark.rdd_files import ALL_MARKED_ANCESTORS

_BATCH_TIME = "spark.streaming.internal.batchTime"
_OUTPUT_OP_ID = "spark.streaming.internal.outputOpId"
# A list separated by commas.
_JOB_TAGS = "spark.job.tags"
_TAG = re.compile(r"penstock-batch-(\d+)-operation-(\d+)")
#: Number of runs that have started the batch, including this one.
ATTEMPT = "spark.penstock.batch.attempt"
#: Id of the run; a recovered run keeps it. With the batch time, it names a batch among those of all programs.
RUN = "spark.penstock.run"


def operation_of_tags(tags: Iterable[str]) -> tuple[int, int] | None:
    """Batch time and output operation of a Spark job with these tags; ``None`` if it belongs to no batch."""
    match = next(filter(None, map(_TAG.fullmatch, tags)), None)
    return None if match is None else (int(match[1]), int(match[2]))


class LocalProperties:
    """The local properties of the thread that creates this object.

    ``attempts`` returns the number of runs that have begun a batch, by batch time in ms.
    """

    def __init__(self, sc: SparkContext, run: str, attempts: Callable[[int], int] = lambda _time_ms: 1) -> None:
        self._attempts = attempts
        #: Address of a batch's page for the descriptions of jobs, with the placeholder ``{batch_time}``.
        self.batch_page = ""
        self._scala: Any = sc._jsc.sc()
        self._saved = self._scala.getLocalProperties().clone()
        self._saved.setProperty("spark.job.interruptOnCancel", "false")
        self._saved.setProperty(ALL_MARKED_ANCESTORS, "true")
        self._saved.setProperty(RUN, run)
        self._saved.remove("spark.jobGroup.id")
        # The program's own tags stay.
        self._tags = f"{tags}," if (tags := self._saved.getProperty(_JOB_TAGS)) else ""
        # Looked up once, because the look-up of a class is a call as well.
        jvm: Any = sc._jvm
        self._reader = jvm.java.io.StringReader

    def put(self, batch_time_ms: int, output_op_id: int) -> None:
        """Set the saved properties, and those of an output operation, on the calling thread.

        The thread must be the engine's, because its properties are overwritten. Four JVM calls create a fresh copy, so
        that properties set by the program in one operation do not leak into the next.
        """
        # Spark renders links to other sites as text.
        page = f" {self.batch_page.replace('{batch_time}', str(batch_time_ms))}" if self.batch_page else ""
        mine = self._saved.clone()
        mine.load(
            self._reader(
                f"{_BATCH_TIME}={batch_time_ms}\n{_OUTPUT_OP_ID}={output_op_id}\n"
                f"{ATTEMPT}={self._attempts(batch_time_ms)}\n"
                f"{_JOB_TAGS}={self._tags}penstock-batch-{batch_time_ms}-operation-{output_op_id}\n"
                "spark.job.description="
                f"Streaming job from [output operation {output_op_id}, batch time {iso_time(batch_time_ms)}]{page}\n"
            )
        )
        self._scala.setLocalProperties(mine)
