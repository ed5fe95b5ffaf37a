"""Spark's errors in one line."""

from __future__ import annotations

import re

import pytest

from penstock.runtime import tracebacks
from penstock.spark import cluster, failure
from penstock.spark.cluster import TaskLocation
from penstock.spark.failure import place, python_traceback, reason


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
PLUGINS = "/venv/lib/python3.11/site-packages/acme_tables/read.py"
RECEIVERS = "/venv/lib/python3.11/site-packages/acme_receivers/read.py"


def traceback_of(*files: str) -> str:
    frames = "".join(f'  File "{file}", line 3, in f\n    f()\n    ^^^\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}ValueError: no"


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ((WORKER, OURS, "<fused chain>", "/home/me/app.py", "/usr/lib/python3.11/json.py"), 3),
        (("/home/me/penstock/app.py", OURS, "/home/me/app.py"), 0),
        ((WORKER, PLUGINS, "/home/me/app.py"), 2),
        ((WORKER, RECEIVERS, "/home/me/app.py"), 1),
        ((WORKER, OURS), 0),
    ],
    ids=["frames above", "called back", "plugin with nodes", "plugin without nodes", "no frame of the program"],
)
def test_traceback_of_a_task_begins_with_the_program(files: tuple[str, ...], shown: int) -> None:
    tracebacks.add_package("acme_tables")
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


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ((WORKER, OURS, "<fused chain>", "/home/me/app.py", "/usr/lib/python3.11/json.py"), "app.py:3 in f"),
        (
            ("/home/me/app.py", "/home/me/parse.py", OURS, "/venv/lib/python3.11/site-packages/x/y.py"),
            "parse.py:3 in f",
        ),
        ((WORKER, OURS), ""),
    ],
    ids=["called a library", "called back", "no frame of the program"],
)
def test_place_is_the_innermost_frame_of_the_program(files: tuple[str, ...], found: str) -> None:
    assert place(RuntimeError(f"Job aborted: {traceback_of(*files)}\n\n\tat org.apache.spark")) == found


def test_place_of_an_error_on_the_driver() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        fail()
    assert re.fullmatch(r"test_failure\.py:\d+ in fail", place(caught.value))
    assert place(ValueError("never raised")) == ""


def test_other_error_is_reported_with_its_type() -> None:
    assert reason(ValueError("\nfirst\nsecond")) == "ValueError: first"
    assert reason(ValueError()) == "ValueError"


def test_reason_is_short_although_the_message_has_a_record() -> None:
    found = reason(KeyError("x" * 5000))
    assert found.startswith("KeyError: 'xxx")
    assert len(found) == 1000


LOST = (
    "Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 7) (host-b executor 2): "
)
LACKS = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    "ModuleNotFoundError: No module named '{}'\n"
)
REMEDY = "install it there, or send it with --py-files, or in an archive with --archives"


def test_task_without_a_module_is_reported_with_executor_and_remedy() -> None:
    expected = f"the Python of executor 2 on host-b lacks the module 'paho.mqtt': {REMEDY} (ModuleNotFoundError: No "
    assert reason(RuntimeError(LOST + LACKS.format("paho.mqtt"))).startswith(expected)
    named = reason(RuntimeError(LOST + LACKS.format("acme_gauge")), "acme-gauge 2.0")
    assert named.startswith("the Python of executor 2 on host-b lacks acme-gauge 2.0: install it there")


def test_task_of_a_dataframe_without_a_module_is_recognized_by_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "failed_tasks", lambda: [(TaskLocation("host-b", "2"), LACKS.format("absent"))])
    shown = LACKS.format("absent").replace(
        "org.apache.spark.", "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
    )
    assert reason(RuntimeError(shown)).startswith("the Python of executor 2 on host-b lacks the module 'absent'")


def test_executor_that_the_error_does_not_name_is_found_in_the_status_store(monkeypatch: pytest.MonkeyPatch) -> None:
    # The store has the failure a moment later than the job's error, after one of another module.
    other, absent = [(TaskLocation(f"host-{each}", "2"), LACKS.format(each)) for each in ("other", "absent")]
    answers = [[], [other], [other, absent]]
    monkeypatch.setattr(cluster, "failed_tasks", lambda: answers.pop(0))
    monkeypatch.setattr(failure, "_SEARCH_PERIOD_S", 0.001)
    found = reason(RuntimeError(LACKS.format("absent")))
    assert found.startswith("the Python of executor 2 on host-absent lacks the module 'absent'")
    assert answers == []


def test_module_that_no_known_executor_lacks_is_reported_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "_SEARCH_S", 0.0)
    # Without Spark.
    assert reason(RuntimeError(LACKS.format("absent"))).startswith(
        "the Python of an executor lacks the module 'absent'"
    )


def test_module_that_the_driver_lacks_is_no_matter_of_executors() -> None:
    assert reason(ModuleNotFoundError("No module named 'absent'")) == "ModuleNotFoundError: No module named 'absent'"
    text = "Traceback (most recent call last):\n  File 'a', line 1\nModuleNotFoundError: No module named 'absent'"
    assert reason(RuntimeError(text)) == "ModuleNotFoundError: No module named 'absent'"


def test_missing_module_that_the_program_handled_is_not_the_reason() -> None:
    handled = LACKS.format("absent") + "\nDuring handling of the above exception, another exception occurred:\n\n"
    error = RuntimeError(
        f"{LOST}{handled}Traceback (most recent call last):\n  File 'a', line 1\nValueError: no\n\tat org"
    )
    assert reason(error) == "ValueError: no"


def test_worker_that_does_not_start_without_a_module_is_reported_with_it() -> None:
    text = "Error from python worker:\n  python: Error while finding module specification for 'penstock.daemon' ("
    error = RuntimeError(
        f"{LOST}org.apache.spark.SparkException: {text}ModuleNotFoundError: No module named 'penstock')"
    )
    assert reason(error).startswith("the Python of executor 2 on host-b lacks the module 'penstock': install")
