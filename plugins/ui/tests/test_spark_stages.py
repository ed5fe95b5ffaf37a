"""What Spark's REST interface says of stages, and that the monitor does without it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock_ui.spark_stages import SparkStages, StageRun

APP = "/api/v1/applications/app-7"
STAGE = {
    "status": "COMPLETE",
    "stageId": 4,
    "attemptId": 1,
    "numTasks": 3,
    "submissionTime": "2026-11-22T12:00:00.100GMT",
    "firstTaskLaunchedTime": "2026-11-22T12:00:00.150GMT",
    "completionTime": "2026-11-22T12:00:01.000GMT",
    "executorRunTime": 2000,
    "executorCpuTime": 300_000_000,
    "jvmGcTime": 40,
    "shuffleFetchWaitTime": 50,
    "shuffleWriteTime": 60_000_000,
    "inputBytes": 5,
    "shuffleReadBytes": 600,
}
TASK = {
    "executorId": "2",
    "host": "worker-02",
    "taskMetrics": {
        "executorRunTime": 800,
        "inputMetrics": {"bytesRead": 1},
        "shuffleReadMetrics": {"remoteBytesRead": 300, "localBytesRead": 100},
    },
}
AT = 1_795_348_800_100


class Spark:
    """A server that answers as Spark's UI does."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            f"{APP}/jobs/9": {"stageIds": [3, 4]},
            f"{APP}/stages/3?details=false": [{"status": "SKIPPED", "stageId": 3}],
            f"{APP}/stages/4?details=false": [{"status": "FAILED"}, STAGE],
            f"{APP}/stages/4/1/taskList?length=1&sortBy=-runtime": [TASK],
        }
        self.asked: list[str] = []
        spark = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                spark.asked.append(self.path)
                self.send_response(200 if self.path in spark.answers else 404)
                self.end_headers()
                self.wfile.write(json.dumps(spark.answers.get(self.path)).encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                """Write nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def spark() -> Iterator[Spark]:
    spark = Spark()
    thread = threading.Thread(target=spark.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield spark
    spark.server.shutdown()
    thread.join(30)
    spark.server.server_close()


def test_completed_stages_of_jobs_with_their_longest_task(spark: Spark) -> None:
    of_tasks = (3, 2000, 300, 40, 110, 605)
    expected = StageRun(4, AT, AT + 50, AT + 900, *of_tasks, 800, 401, "2", "worker-02")
    assert SparkStages(spark.url, "app-7").of_jobs([9]) == (expected,)


def test_stage_of_one_task_has_no_longest(spark: Spark) -> None:
    spark.answers[f"{APP}/stages/4?details=false"] = [{**STAGE, "numTasks": 1}]
    (stage,) = SparkStages(f"{spark.url}/", "app-7").of_jobs([9])
    assert (stage.longest_ms, stage.longest_executor) == (0, "")
    assert not any("taskList" in path for path in spark.asked)


@pytest.mark.parametrize("answer", [None, [], 7, {"stageIds": 7}, {}], ids=repr)
def test_strange_answer_is_no_error_and_pauses_the_questions(spark: Spark, answer: Any) -> None:
    spark.answers[f"{APP}/jobs/9"] = answer
    stages = SparkStages(spark.url, "app-7")
    assert stages.of_jobs([9]) == ()
    asked = len(spark.asked)
    assert stages.of_jobs([9]) == ()
    assert len(spark.asked) == asked


@pytest.mark.parametrize("url", ["", "ftp://127.0.0.1/", "file:///etc/passwd", "javascript:1"])
def test_without_a_ui_nobody_is_asked(url: str) -> None:
    assert SparkStages(url, "app-7").of_jobs([9]) == ()


def test_ui_that_is_not_reachable_is_no_error() -> None:
    assert SparkStages("http://127.0.0.1:1", "app-7").of_jobs([9]) == ()


def test_only_the_last_jobs_of_a_batch_are_asked_for(spark: Spark) -> None:
    spark.answers |= {f"{APP}/jobs/{n}": {"stageIds": []} for n in range(100)}
    SparkStages(spark.url, "app-7").of_jobs(range(100))
    assert spark.asked == [f"{APP}/jobs/{n}" for n in range(92, 100)]
