"""``batch_budget``: the parts of a batch's time, from its batch time to its end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import asdict, frozen

from penstock_ui.snapshot import Batch
from penstock_ui.spark_stages import StageRun


@frozen
class BatchBudget:
    """The parts of one batch, or of several, in ms. They add up to the time from the batch time to the end.

    Attributes:
        generation: the driver generated the jobs.
        waiting: the jobs waited for earlier batches.
        scheduling: Spark planned stages, scheduled their tasks and sent them.
        python: tasks computed in Python, or waited for what they called.
        jvm: tasks computed in the JVM.
        shuffle: tasks waited for shuffled data, and wrote it.
        gc: tasks waited for garbage collection.
        tasks: tasks ran, where Spark did not say what they did.
        output: output operations ran in the driver, outside of Spark's jobs.
        operations: output operations ran, where no Spark job of theirs is known.
    """

    generation: float = 0.0
    waiting: float = 0.0
    scheduling: float = 0.0
    python: float = 0.0
    jvm: float = 0.0
    shuffle: float = 0.0
    gc: float = 0.0
    tasks: float = 0.0
    output: float = 0.0
    operations: float = 0.0

    @property
    def total(self) -> float:
        """All parts together."""
        return float(sum(asdict(self).values()))

    def __add__(self, other: BatchBudget) -> BatchBudget:
        added = asdict(other)
        return BatchBudget(**{name: ms + added[name] for name, ms in asdict(self).items()})


def batch_budget(batch: Batch) -> BatchBudget | None:
    """The parts of a batch; ``None`` until it has ended."""
    if batch.submitted_ms is None or batch.started_ms is None or batch.ended_ms is None:
        return None
    start, end = batch.started_ms, max(batch.ended_ms, batch.started_ms)
    jobs = _covered(
        ((job.submitted_ms, job.completed_ms) for op in batch.operations or () for job in op.jobs), start, end
    )
    in_jobs = sum(until - since for since, until in jobs)
    before = {"generation": float(batch.generation_delay_ms or 0), "waiting": float(batch.scheduling_delay_ms or 0)}
    if not jobs:
        return BatchBudget(**before, operations=float(end - start))
    output = float(end - start - in_jobs)
    if not batch.stages:
        return BatchBudget(**before, tasks=float(in_jobs), output=output)
    ran = _covered(((stage.first_task_ms, stage.completed_ms) for stage in batch.stages), start, end)
    # A job's clock and a stage's are read at different moments.
    in_tasks = min(sum(until - since for since, until in ran), in_jobs)
    return BatchBudget(
        **before, **_in_tasks(batch.stages, in_tasks), scheduling=float(in_jobs - in_tasks), output=output
    )


def _in_tasks(stages: Sequence[StageRun], wall_ms: float) -> dict[str, float]:
    """Divide the time in which tasks ran by what they did, added up over all of them."""
    run = sum(stage.run_ms for stage in stages)
    if not run:
        return {"tasks": wall_ms}
    gc = min(sum(stage.gc_ms for stage in stages), run)
    shuffle = min(sum(stage.shuffle_ms for stage in stages), run - gc)
    jvm = min(sum(stage.cpu_ms for stage in stages), run - gc - shuffle)
    parts = {"gc": gc, "shuffle": shuffle, "jvm": jvm, "python": run - gc - shuffle - jvm}
    return {name: wall_ms * part / run for name, part in parts.items()}


def _covered(spans: Iterable[tuple[int | None, int | None]], first: int, last: int) -> list[tuple[int, int]]:
    """The union of spans of time, between two times."""
    known = sorted((max(s, first), min(e, last)) for s, e in spans if s is not None and e is not None)
    union = list[tuple[int, int]]()
    for start, end in known:
        if end <= start:
            continue
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], end)
        else:
            union.append((start, end))
    return union
