"""``SparkJobs``: reads Spark's jobs from its status store, many in one call."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkJobs:
    """The jobs of a SparkContext, as far as Spark retains them (``spark.ui.retainedJobs``).

    Args:
        sc: the SparkContext.
    """

    def __init__(self, sc: SparkContext) -> None:
        jvm: Any = sc._jvm
        # Looked up once: each lookup of a class takes several calls.
        self._bus: Any = sc._jsc.sc().listenerBus()
        self._store: Any = sc._jsc.sc().statusStore().store()
        self._kind = jvm.java.lang.Class.forName("org.apache.spark.status.JobDataWrapper")
        self._utils = jvm.org.apache.spark.status.KVUtils
        self._mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def since(self, first: int, most: int, wait_s: float = 0.0) -> list[dict[str, Any]]:
        """Return jobs by id, ascending, each with the fields of Spark's REST resource ``jobs``. Takes five JVM calls.

        Args:
            first: the lowest job id.
            most: the largest number of jobs.
            wait_s: the longest wait until the status store has every job that has ended: Spark's listener bus updates
                it, on another thread than the job's.
        """
        if wait_s:
            # A timeout: the jobs that the store has so far.
            with suppress(Py4JJavaError):
                self._bus.waitUntilEmpty(round(wait_s * 1000))
        found = self._utils.viewToSeq(self._store.view(self._kind).first(first).max(most))
        return [each["info"] for each in json.loads(self._mapper.writeValueAsString(found))]
