"""Spark's errors in one line."""

from __future__ import annotations

import pytest

from penstock.spark.failure import python_traceback, reason


@pytest.mark.parametrize("after", ["\n\tat org.apache.spark.api.python.Runner", ""])
def test_killed_worker_is_reported_without_advice_on_tracebacks(after: str) -> None:
    error = RuntimeError(
        "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted: "
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting "
        "'spark.sql.execution.pyspark.udf.faulthandler.enabled' or 'spark.python.worker.faulthandler.enabled' "
        f"configuration to 'true' for the better Python traceback.{after}"
    )
    assert reason(error) == "Python worker exited unexpectedly (crashed)"


def test_lost_executor_is_reported_with_its_reason() -> None:
    line = "ExecutorLostFailure (executor 1 exited unrelated to the running tasks) Reason: Command exited with code 137"
    assert reason(RuntimeError(f"Job aborted: {line}\nDriver stacktrace:")) == line


def test_exception_of_java_is_reported_under_its_own_class() -> None:
    text = "An error occurred while calling o55.setCheckpointDir.\n: java.io.IOException: disk full\n\tat java.base"
    assert reason(RuntimeError(text)) == "java.io.IOException: disk full"


def test_exception_of_python_in_a_task_is_reported_as_such() -> None:
    text = "Job aborted\nTraceback (most recent call last):\n  File 'a', line 1\nValueError: no\n\tat org.apache"
    assert reason(RuntimeError(text)) == "ValueError: no"


WORKER = "/venv/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py"
OURS = "/venv/lib/python3.11/site-packages/penstock/worker/fused.py"


def traceback_of(*files: str) -> str:
    frames = "".join(f'  File "{file}", line 3, in f\n    f()\n    ^^^\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}ValueError: no"


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ((WORKER, OURS, "<fused chain>", "/home/me/app.py", "/usr/lib/python3.11/json.py"), 3),
        (("/home/me/penstock/app.py", OURS, "/home/me/app.py"), 0),
        ((WORKER, OURS), 0),
    ],
    ids=["frames above", "called back", "no frame of the program"],
)
def test_traceback_of_a_task_begins_with_the_program(files: tuple[str, ...], shown: int) -> None:
    error = RuntimeError(f"Job aborted: {traceback_of(*files)}\n\n\tat org.apache.spark")
    assert python_traceback(error) == traceback_of(*files[shown:])


def test_frames_in_the_message_are_no_frames_of_the_task() -> None:
    of_task = f'Traceback (most recent call last):\n  File "{OURS}", line 3, in update\n    fail(errors)\n'
    message = (
        "StateError: key 'a': ValueError: no\n  File \"/home/me/app.py\", line 7, in f\n    raise ValueError('no')"
    )
    error = RuntimeError(f"Job aborted: {of_task}{message}\n\n\tat org.apache.spark")
    assert python_traceback(error) == of_task + message
    assert reason(error) == "StateError: key 'a': ValueError: no"


def test_other_error_is_reported_with_its_type() -> None:
    assert reason(ValueError("\nfirst\nsecond")) == "ValueError: first"
    assert reason(ValueError()) == "ValueError"
