"""The parts of a batch's time add up to the time from its batch time to its end."""

from __future__ import annotations

import pytest
from attrs import asdict, evolve
from hypothesis import given, strategies as st

from penstock_ui.batch_budget import BatchBudget, batch_budget
from penstock_ui.snapshot import Batch, BatchStatus, Operation
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.spark_stages import StageRun

T = 1_700_000_000_000


def batch(*jobs: tuple[int, int], stages: tuple[StageRun, ...] = ()) -> Batch:
    """A batch that was generated in 20 ms, waited 30, and ran from 50 to 1050."""
    found = tuple(JobInfo(n, T, 0, "SUCCEEDED", T + start, T + end) for n, (start, end) in enumerate(jobs))
    operation = Operation(0, "write", "", T + 50, T + 1050, None, found)
    return Batch(T, BatchStatus.COMPLETED, 1, T + 20, T + 50, T + 1050, operations=(operation,), stages=stages)


def test_time_outside_of_jobs_is_that_of_the_output_in_the_driver() -> None:
    assert batch_budget(batch((100, 300), (250, 450))) == BatchBudget(20, 30, tasks=350, output=650)
    assert batch_budget(batch()) == BatchBudget(20, 30, operations=1000)


def test_time_of_tasks_is_divided_by_what_they_did() -> None:
    stage = StageRun(1, T + 100, T + 150, T + 550, tasks=4, run_ms=1000, cpu_ms=200, gc_ms=100, shuffle_ms=300)
    budget = batch_budget(batch((100, 600), stages=(stage,)))
    assert budget == BatchBudget(20, 30, scheduling=100, python=160, jvm=80, shuffle=120, gc=40, output=500)


def test_batch_that_has_not_ended_has_no_budget() -> None:
    assert batch_budget(evolve(batch(), ended_ms=None)) is None


spans = st.lists(st.tuples(st.integers(-100, 1200), st.integers(-100, 1200)), max_size=6)
metrics = st.tuples(*[st.integers(0, 5000)] * 4)


@given(spans, spans, metrics)
def test_parts_add_up_to_the_whole_whatever_spark_reports(
    jobs: list[tuple[int, int]], ran: list[tuple[int, int]], metric: tuple[int, int, int, int]
) -> None:
    run, cpu, gc, shuffle = metric
    stages = tuple(StageRun(n, None, T + a, T + b, 2, run, cpu, gc, shuffle) for n, (a, b) in enumerate(ran))
    budget = batch_budget(batch(*jobs, stages=stages))
    assert budget is not None
    assert budget.total == pytest.approx(1050)
    assert min(vars_of(budget)) >= 0
    assert (budget + budget).total == pytest.approx(2100)


def vars_of(budget: BatchBudget) -> list[float]:
    return list(asdict(budget).values())
