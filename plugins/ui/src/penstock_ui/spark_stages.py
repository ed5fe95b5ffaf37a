"""The stages of Spark's jobs, from Spark's own REST interface beside its UI: what tasks spend their time on.

Penstock's jobs say how long Spark worked; only Spark knows how much of it was garbage collection, shuffle, or one task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from attrs import frozen

from penstock.spi import get_logger, text_of
from penstock_ui.spark_jobs import time_ms

log = get_logger("ui")

_TIMEOUT_S = 2.0
_MOST_BYTES = 4 << 20
# After an error, for example because the UI asks for a login, Spark is asked again after this time.
_PAUSE_S = 60.0
# What a task read, in its metrics.
_READ = (
    ("inputMetrics", "bytesRead"),
    ("shuffleReadMetrics", "remoteBytesRead"),
    ("shuffleReadMetrics", "localBytesRead"),
)
# The jobs of one batch that are looked at, and the stages of one job.
_MOST_JOBS, _MOST_STAGES = 8, 8


@frozen
class StageRun:
    """A stage of a batch. Times are ms; those of tasks are sums over the tasks.

    Attributes:
        stage_id: Spark's id.
        submitted_ms: when it was submitted, ms since the epoch.
        first_task_ms: when its first task was launched.
        completed_ms: when it ended.
        tasks: number of its tasks.
        run_ms: time of the tasks on executors.
        cpu_ms: of it, CPU time in the JVM.
        gc_ms: of it, garbage collection.
        shuffle_ms: of it, waits for shuffled data and writes of it.
        read_bytes: what the tasks read, from inputs and shuffles; Spark counts no records of Python's shuffles.
        longest_ms: time of the longest task.
        longest_bytes: what it read.
        longest_executor: its executor.
        longest_host: the host of that executor.
    """

    stage_id: int
    submitted_ms: int | None = None
    first_task_ms: int | None = None
    completed_ms: int | None = None
    tasks: int = 0
    run_ms: int = 0
    cpu_ms: int = 0
    gc_ms: int = 0
    shuffle_ms: int = 0
    read_bytes: int = 0
    longest_ms: int = 0
    longest_bytes: int = 0
    longest_executor: str = ""
    longest_host: str = ""


class SparkStages:
    """Reads stages from the REST interface of an application; not thread-safe.

    Args:
        ui_url: the address of Spark's UI; empty when it is off.
        application_id: the application.
    """

    def __init__(self, ui_url: str, application_id: str) -> None:
        is_address = urlsplit(ui_url).scheme in {"http", "https"}
        self._base = f"{ui_url.rstrip('/')}/api/v1/applications/{quote(application_id)}" if is_address else ""
        self._paused_until_s = 0.0

    def of_jobs(self, job_ids: Iterable[int]) -> tuple[StageRun, ...]:
        """The completed stages of some jobs; none if Spark does not answer within two seconds."""
        if not self._base or time.monotonic() < self._paused_until_s:
            return ()
        try:
            jobs = [self._get(f"jobs/{job_id}") for job_id in list(job_ids)[-_MOST_JOBS:]]
            ids = sorted({stage_id for job in jobs for stage_id in job["stageIds"][-_MOST_STAGES:]})
            stages = [attempts[-1] for stage_id in ids if (attempts := self._get(f"stages/{stage_id}?details=false"))]
            return tuple(self._stage(stage) for stage in stages if stage["status"] == "COMPLETE")
        except (OSError, HTTPException, ValueError, KeyError, TypeError, IndexError) as error:
            self._paused_until_s = time.monotonic() + _PAUSE_S
            log.info("Spark stages unknown", reason=text_of(error), throttle_s=600)
            return ()

    def _stage(self, stage: dict[str, Any]) -> StageRun:
        longest: dict[str, Any] = {}
        if stage["numTasks"] > 1:
            where = f"stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=1&sortBy=-runtime"
            longest = next(iter(self._get(where)), {})
        metrics = longest.get("taskMetrics", {})
        return StageRun(
            stage["stageId"],
            time_ms(stage.get("submissionTime")),
            time_ms(stage.get("firstTaskLaunchedTime")),
            time_ms(stage.get("completionTime")),
            stage["numTasks"],
            stage["executorRunTime"],
            stage["executorCpuTime"] // 1_000_000,
            stage["jvmGcTime"],
            stage["shuffleFetchWaitTime"] + stage["shuffleWriteTime"] // 1_000_000,
            stage["inputBytes"] + stage["shuffleReadBytes"],
            metrics.get("executorRunTime", 0),
            sum(metrics.get(of, {}).get(name, 0) for of, name in _READ),
            longest.get("executorId", ""),
            longest.get("host", ""),
        )

    def _get(self, path: str) -> Any:
        with urlopen(Request(f"{self._base}/{path}"), timeout=_TIMEOUT_S) as response:
            return json.loads(response.read(_MOST_BYTES))
