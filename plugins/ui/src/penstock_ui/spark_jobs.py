"""The Spark jobs of a running application, from Spark's status store: also while Spark's own UI is off."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import frozen

from penstock.spi import operation_of_tags

if TYPE_CHECKING:
    from pyspark import SparkContext


@frozen
class JobInfo:
    """One Spark job.

    Attributes:
        job_id: Spark's id.
        batch_time: the batch that started it; ``None`` for a job of no batch, such as a receiver.
        output_op_id: the output operation that started it; ``None`` for a job of no batch.
        status: ``RUNNING``, ``SUCCEEDED``, ``FAILED`` or ``UNKNOWN``.
        submitted_ms: when it was submitted, ms since the epoch.
        completed_ms: when it ended, ms since the epoch; ``None`` while it runs.
        num_stages: its stages, without those that were skipped because their output was available.
        num_succeeded_stages: stages that succeeded.
        num_failed_stages: failed attempts of stages.
        num_skipped_stages: stages that were skipped.
        num_tasks: the tasks of its stages, without those of skipped stages.
        num_succeeded_tasks: tasks that succeeded.
        num_failed_tasks: failed attempts of tasks.
    """

    job_id: int
    batch_time: int | None = None
    output_op_id: int | None = None
    status: str = "UNKNOWN"
    submitted_ms: int | None = None
    completed_ms: int | None = None
    num_stages: int = 0
    num_succeeded_stages: int = 0
    num_failed_stages: int = 0
    num_skipped_stages: int = 0
    num_tasks: int = 0
    num_succeeded_tasks: int = 0
    num_failed_tasks: int = 0


#: Returns at most so many jobs from an id on, and waits so many seconds for jobs that have just ended.
JobQuery = Callable[[int, int, float], Sequence[JobInfo]]


def no_jobs(first: int, most: int, wait_s: float) -> Sequence[JobInfo]:
    """The query of an application that does not run in this process."""
    return ()


def job_query(application_id: str) -> JobQuery:
    """The query of an application's jobs."""
    # Slow to import, and the history of an application needs no Spark.
    from pyspark import SparkContext

    sc = SparkContext._active_spark_context
    return SparkJobs(sc).since if sc is not None and sc.applicationId == application_id else no_jobs


class SparkJobs:
    """The jobs of a SparkContext, as far as Spark retains them (``spark.ui.retainedJobs``)."""

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc

    def since(self, first: int, most: int, wait_s: float = 0.0) -> list[JobInfo]:
        """Return at most ``most`` jobs from id ``first`` on, by ascending id. Takes five JVM calls.

        Spark numbers the jobs of an application 0, 1, … ``wait_s`` limits the wait for Spark's listener bus, which adds
        ended jobs to the status store.
        """
        if wait_s:
            from py4j.protocol import Py4JJavaError

            # After a timeout the result has the jobs that the store has so far.
            with suppress(Py4JJavaError):
                self._bus.waitUntilEmpty(round(wait_s * 1000))
        kind, utils, mapper = self._classes
        jobs = utils.viewToSeq(self._store.view(kind).first(first).max(most))
        return [_job(job["info"]) for job in json.loads(mapper.writeValueAsString(jobs))]

    @cached_property
    def _bus(self) -> Any:
        java_context: Any = self._sc._jsc
        return java_context.sc().listenerBus()

    @cached_property
    def _store(self) -> Any:
        java_context: Any = self._sc._jsc
        return java_context.sc().statusStore().store()

    @cached_property
    def _classes(self) -> tuple[Any, Any, Any]:
        """Spark's class of jobs, its utilities for views and its writer of JSON: the look-up takes several calls."""
        jvm: Any = self._sc._jvm
        return (
            jvm.java.lang.Class.forName("org.apache.spark.status.JobDataWrapper"),
            jvm.org.apache.spark.status.KVUtils,
            jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper(),
        )


def _job(values: Mapping[str, Any]) -> JobInfo:
    """A job, as Spark's REST describes it."""
    batch_time, output_op_id = operation_of_tags(values["jobTags"]) or (None, None)
    return JobInfo(
        values["jobId"],
        batch_time,
        output_op_id,
        values["status"],
        time_ms(values.get("submissionTime")),
        time_ms(values.get("completionTime")),
        len(values["stageIds"]) - values["numSkippedStages"],
        values["numCompletedStages"],
        values["numFailedStages"],
        values["numSkippedStages"],
        values["numTasks"] - values["numSkippedTasks"],
        values["numCompletedIndices"],
        values["numFailedTasks"],
    )


def time_ms(text: str | None) -> int | None:
    """A time in Spark's REST: ``2015-05-03T13:06:00.602GMT``."""
    return None if text is None else round(datetime.fromisoformat(text.replace("GMT", "+00:00")).timestamp() * 1000)
