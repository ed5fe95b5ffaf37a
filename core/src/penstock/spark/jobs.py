"""``SparkJobs``: reads Spark's jobs from its status store, many in one call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
        self._store: Any = sc._jsc.sc().statusStore().store()
        self._kind = jvm.java.lang.Class.forName("org.apache.spark.status.JobDataWrapper")
        self._utils = jvm.org.apache.spark.status.KVUtils
        self._mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def since(self, first: int, most: int) -> list[dict[str, Any]]:
        """Return jobs by id, ascending, each with the fields of Spark's REST resource ``jobs``. Takes five JVM calls.

        Args:
            first: the lowest job id.
            most: the largest number of jobs.
        """
        found = self._utils.viewToSeq(self._store.view(self._kind).first(first).max(most))
        return [each["info"] for each in json.loads(self._mapper.writeValueAsString(found))]
