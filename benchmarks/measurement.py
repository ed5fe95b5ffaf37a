"""One measurement: starts a program, serves it lines, watches its processes, checks its answer, ends its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from benchmarks import data
from benchmarks.data import Lines
from benchmarks.engines import Engine
from benchmarks.metrics import figures, trend
from benchmarks.processes import Watch, end_session
from benchmarks.programs.task import LINE_WORKS, Result, Task, parse_result
from benchmarks.rows import Point, Row
from benchmarks.sender import Sender

ROOT = Path(__file__).parents[1]
# Time for the start and the end of Spark, in addition to the task's own deadline.
_START_S = 120.0


@frozen
class Measurement:
    """The result of one run of one engine.

    Attributes:
        figures: by metric; empty if there are none.
        trend: the processing delay over the number of batches run.
        reason: why there are no figures.
        is_wrong: whether the engine failed or gave a wrong answer; false if it only lacks something.
    """

    figures: Mapping[str, float] = field(factory=dict)
    trend: tuple[tuple[float, float], ...] = ()
    reason: str = ""
    is_wrong: bool = False


def measure(
    engine: Engine,
    row: Row,
    point: Point,
    *,
    seed: int,
    conf: Mapping[str, str] | None = None,
    beside: Callable[[int], object] | None = None,
) -> Measurement:
    """Run one engine at one point of a row.

    Args:
        engine: must be available.
        row: the work.
        point: the size.
        seed: seed of the data.
        conf: configuration of Spark, which overrides the row's and the engine's.
        beside: called with the program's process id once it runs.
    """
    lines = Lines(seed, point.line_bytes)
    task = make_task(engine, row, point, seed, conf or {})
    num_lines = task.records // max(point.receivers, 1)
    sends = Sender(lines, num_lines, point.receivers, point.pace) if point.receivers else None
    with sends or nullcontext(), tempfile.TemporaryFile("w+") as errors:
        if sends:
            task = evolve(task, ports=tuple(sends.ports))
        program = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", engine.program, task.as_json()],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        watch = Watch(program.pid)
        try:
            if beside:
                beside(program.pid)
            output, _ = program.communicate(timeout=task.deadline_s + _START_S)
        except subprocess.TimeoutExpired:
            return Measurement(reason=f"no result within {task.deadline_s + _START_S:g} s", is_wrong=True)
        finally:
            watch.stop()
            end_session(program.pid)
            program.communicate()
        result = parse_result(output)
        if result is None:
            errors.seek(0)
            return Measurement(reason=_last_error(errors.read(), program.returncode), is_wrong=True)
    if result.reason:
        return Measurement(reason=result.reason)
    if problem := check(task, lines, point.receivers, result):
        return Measurement(reason=problem, is_wrong=True)
    first = result.batches[0]
    began_s = sends.began_at if sends else first.end_s - first.processing_ms / 1000
    usage = watch.usage(began_s, result.batches[-1].end_s)
    metrics = figures(result, usage, began_s, row.warm_up + point.warm_up, task.warm_up)
    return Measurement(metrics, tuple(trend(result.batches)))


def make_task(engine: Engine, row: Row, point: Point, seed: int, conf: Mapping[str, str]) -> Task:
    """The task of an engine at a point of a row, without ports."""
    parameters: dict[str, Any] = {**point.task, **engine.settings, "work": row.work, "seed": seed}
    parameters["warm_up"] = point.pace.warm_up * point.receivers
    parameters["conf"] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(parameters.get("cores", 2)),
        **point.task.get("conf", {}),
        **engine.settings.get("conf", {}),
        **conf,
    }
    seconds = parameters.get("batches", 0) * parameters.get("interval_s", 1.0)
    if point.pace.burst:
        seconds = parameters["records"] / point.pace.burst * point.pace.period_s
    return Task(**{"deadline_s": 300.0 + 3 * seconds, **parameters})


def check(task: Task, lines: Lines, receivers: int, result: Result) -> str:
    """Compare a result with plain Python's on the same data; return the difference, or an empty text."""
    if not result.batches:
        return "no batch ran"
    if task.work not in LINE_WORKS:
        return _difference(_expected_of_queues(task), result.answer)
    if result.records != task.records:
        return f"{result.records:,} records in batches, {task.records:,} were sent"
    per_receiver = task.records // receivers
    if task.work == "topk":
        first, tops = 0, []
        for batch in (batch for batch in result.batches if batch.records):
            tops.append(data.top(lines.words(first, first + batch.records)))
            first += batch.records
        return _difference(tops, result.answer)
    if task.work == "wordcount":
        counts = {word: count * receivers for word, count in lines.words(0, per_receiver).items()}
        return _difference(data.digest(counts), result.answer)
    return _difference(
        receivers * (lines.matches(per_receiver) if task.work == "grep" else per_receiver), result.answer
    )


def _expected_of_queues(task: Task) -> list[int]:
    if task.work == "streams":
        return [task.streams * task.batch_records] * task.batches
    batches = data.keyed_batches(task.seed, task.batches, task.batch_records, task.keys)
    return data.window_sums(batches, task.slides) if task.work == "window" else data.largest_totals(batches)


def _difference(expected: Any, actual: Any) -> str:
    return "" if expected == actual else f"wrong answer: {str(actual)[:200]}, expected {str(expected)[:200]}"


def environment() -> dict[str, str]:
    """The environment of a program: Spark's workers run this Python and find this package."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"}


def _last_error(errors: str, code: int) -> str:
    """The last line of a failed program's output that names an exception, or else its last line."""
    said = [line.strip() for line in errors.splitlines() if line.strip()]
    named = [line for line in said if "Error" in line.split(":")[0] or "Exception" in line.split(":")[0]]
    return f"exit code {code}: {(named or said or ['no message'])[-1][:300]}"
