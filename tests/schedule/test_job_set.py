"""``JobSet``: how far the jobs of a batch are."""

import pytest

from penstock import StreamInputInfo
from penstock.graph.call_site import CallSite
from penstock.graph.outputs import Job
from penstock.schedule.job_scheduler import JobSet


@pytest.fixture
def job_set() -> JobSet:
    jobs = [Job(n, CallSite("pprint", f"short {n}", f"long {n}"), lambda: None) for n in (0, 3)]
    return JobSet(1000, jobs, {7: StreamInputInfo(7, 5)}, 1010)


def test_batch_starts_with_its_first_job(job_set: JobSet) -> None:
    operation, first = job_set.start_job(3, 1020)
    assert (operation.id, operation.startTime, first) == (3, 1020, True)
    operation, first = job_set.start_job(0, 1030)
    assert (operation.id, operation.startTime, first) == (0, 1030, False)
    assert job_set.info().processingStartTime == 1020
    assert job_set.info().schedulingDelay == 10


def test_batch_ends_with_its_last_job(job_set: JobSet) -> None:
    for output_op_id in (0, 3):
        job_set.start_job(output_op_id, 1020)
    operation, last = job_set.end_job(3, 1050, None, {})
    assert (operation.duration, operation.failureReason, last) == (30, None, False)
    assert job_set.info().processingEndTime is None
    operation, last = job_set.end_job(0, 1100, "why it failed", {})
    assert (operation.duration, operation.failureReason, last) == (80, "why it failed", True)
    info = job_set.info()
    assert (info.processingDelay, info.totalDelay) == (80, 90)
    assert {n: each.failureReason for n, each in info.outputOperationInfos.items()} == {0: "why it failed", 3: None}


def test_returned_info_is_a_snapshot(job_set: JobSet) -> None:
    before = job_set.info()
    job_set.start_job(0, 1020)
    assert before.processingStartTime is None
    assert before.outputOperationInfos[0].startTime is None
