"""Describes what a running program is doing, for the report of a wait that timed out.

Receivers, batches, Spark's executors and running tasks, and the stacks of the driver's threads and of the executors'
task threads. With ``TRACEBACKS`` in the configuration, also the stacks of Python tasks that run for a minute or more.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

from penstock import StreamingContext

#: Makes Python workers print their stacks once per minute, so that ``describe`` finds them. Since Spark 4.1.
TRACEBACKS = ("spark.python.worker.tracebackDumpIntervalSeconds", "60")
# The end of what an executor has printed: some stacks of its workers.
_PRINTED_CHARACTERS = 12_000


def describe(sc: SparkContext, ssc: StreamingContext | None) -> str:
    """Describe the program. A part that cannot be described gives the reason instead."""
    lines: list[str] = []
    for part, of in (
        (_receivers, ssc),
        (_batches, ssc),
        (_executors, sc),
        (_jobs, sc),
        (_driver_threads, None),
        (_printed_by_executors, sc),
        # The last part, because an executor that hangs answers only after two minutes.
        (_task_threads, sc),
    ):
        lines.append(f"-- {part.__name__[1:].replace('_', ' ')} --")
        try:
            lines += part(of)
        except Exception:
            lines.append(traceback.format_exc())
    return "\n".join(lines)


def _receivers(ssc: Any) -> Iterator[str]:
    for stream_id, record in ssc._engine.tracker._tracked.records.items():
        yield f"{stream_id}: {record.state}, on {record.location}, desired {record.desired}"
        yield f"   paused by {set(record.pause_reasons)}, draining {set(record.draining)}"
        yield f"   last end: {record.last_end.message}"


def _batches(ssc: Any) -> Iterator[str]:
    generator, tracker = ssc._engine.generator, ssc._engine.tracker
    pending = ssc._engine.scheduler.pending_batches
    yield f"generated until {generator._due.generated_ms}, completed {generator._completed_ms}, pending {pending}"
    yield f"records in no batch: {tracker.blocks.unallocated_records()}, backlog: {tracker.backlog.num_bytes} bytes"


def _executors(sc: Any) -> Iterator[str]:
    for executor in _elements(sc._jsc.sc().statusStore().executorList(False)):
        removed = executor.removeReason()
        yield (
            f"{executor.id()} on {executor.hostPort()}: "
            + (f"{executor.activeTasks()} tasks on {executor.totalCores()} cores" if executor.isActive() else "removed")
            + (f": {removed.get()}" if removed.isDefined() else "")
        )


def _jobs(sc: Any) -> Iterator[str]:
    yield f"active jobs: {sorted(sc.statusTracker().getActiveJobsIds())}"
    store = sc._jsc.sc().statusStore()
    for stage in _elements(store.activeStages()):
        counts = f"{stage.numTasks()} tasks, {stage.numActiveTasks()} run, {stage.numCompleteTasks()} are complete"
        yield f"stage {stage.stageId()}, attempt {stage.attemptId()}, {stage.status()}: {counts}, {stage.name()!r}"
        for task in _elements(store.taskList(stage.stageId(), stage.attemptId(), 20)):
            began = f"since {task.launchTime()}"
            yield f"   task {task.taskId()}, attempt {task.attempt()}: {task.status()} on {task.executorId()}, {began}"


def _driver_threads(_: object) -> Iterator[str]:
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread.ident in frames and thread is not threading.current_thread():
            yield f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident])[-6:])}"


def _printed_by_executors(sc: Any) -> Iterator[str]:
    for path in sorted(Path(_find_spark_home(), "work", sc.applicationId).glob("*/stderr")):
        yield f"{path}:\n{path.read_text(errors='replace')[-_PRINTED_CHARACTERS:]}"


def _task_threads(sc: Any) -> Iterator[str]:
    for executor in _elements(sc._jsc.sc().statusStore().executorList(True)):
        threads = sc._jsc.sc().getExecutorThreadDump(executor.id())
        if executor.id() == "driver" or threads.isEmpty():
            continue
        for thread in threads.get():
            if "task launch worker" in thread.threadName():
                yield f"executor {executor.id()}, {thread.threadName()}:\n{thread.stackTrace()}"


def _elements(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))
