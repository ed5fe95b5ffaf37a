"""The record of a batch, derived from the events about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from penstock import BatchInfo, OutputOperationInfo
from penstock_ui.snapshot import Batch, BatchStatus, Operation
from penstock_ui.spark_jobs import JobInfo

# A longer traceback loses its beginning: its end says what failed.
_MOST_TEXT = 10_000
#: Spark jobs retained per output operation, the newest ones.
MOST_JOBS = 1000


def batch_of(info: BatchInfo, status: BatchStatus, earlier: Batch | None = None) -> Batch:
    """The record of a batch, from its event and the record before it."""
    operations = {} if earlier is None else {operation.id: operation for operation in earlier.operations or ()}
    for number, operation in info.outputOperationInfos.items():
        operations[number] = operation_of(operation, operations.get(number))
    batch = Batch(
        info.batchTime,
        status,
        info.numRecords,
        info.submissionTime,
        info.processingStartTime,
        info.processingEndTime,
        _latency_ms(info),
        # A copy, because another listener may modify the event's dictionary.
        inputs=dict(info.streamIdToInputInfo),
        awaits_rerun=info.awaits_rerun,
        stages=() if earlier is None else earlier.stages,
    )
    return with_operations(batch, operations)


def with_operations(batch: Batch, operations: Mapping[int, Operation]) -> Batch:
    """A batch with other output operations, and the counts that follow from them."""
    ordered = tuple(operations[number] for number in sorted(operations))
    failures = [operation.failure for operation in ordered if operation.failure is not None]
    ended = sum(operation.ended_ms is not None for operation in ordered)
    return evolve(
        batch,
        operations=ordered,
        num_operations=len(ordered),
        num_failed=len(failures),
        num_succeeded=max(ended - len(failures), 0),
        first_failure=failures[0] if failures else None,
    )


def after_rerun(batch: Batch, info: OutputOperationInfo) -> Batch:
    """A failed batch after one of its output operations has run again."""
    if info.endTime is None:
        return batch
    if batch.operations is None:
        failed = max(batch.num_failed - (info.failureReason is None), 0)
        succeeded = batch.num_succeeded + batch.num_failed - failed
        failure = batch.first_failure if failed else None
        batch = evolve(batch, num_succeeded=succeeded, num_failed=failed, first_failure=failure)
    else:
        operations = {operation.id: operation for operation in batch.operations}
        operations[info.id] = operation_of(info, operations.get(info.id))
        batch = with_operations(batch, operations)
    return evolve(batch, awaits_rerun=batch.num_failed > 0)


def operation_of(info: OutputOperationInfo, earlier: Operation | None) -> Operation:
    """The record of an output operation, from its event and the record before it."""
    failure = info.failureReason
    if failure is not None and len(failure) > _MOST_TEXT:
        failure = f"…{failure[-_MOST_TEXT:]}"
    return Operation(
        info.id,
        info.name,
        info.description,
        info.startTime,
        info.endTime,
        failure,
        () if earlier is None else earlier.jobs,
        # A copy, because another listener may modify the event's dictionary.
        dict(info.metadata),
    )


def with_jobs(batch: Batch, jobs: Iterable[JobInfo]) -> Batch:
    """Add or update jobs of a batch's output operations."""
    if batch.operations is None:
        return batch
    operations = {operation.id: operation for operation in batch.operations}
    jobs_of = {operation.id: {job.job_id: job for job in operation.jobs} for operation in batch.operations}
    for job in jobs:
        number = job.output_op_id or 0
        # The operation's own event may still arrive, unless the batch has ended.
        if number in operations or batch.status is not BatchStatus.COMPLETED:
            jobs_of.setdefault(number, {})[job.job_id] = job
    changed = {
        number: evolve(
            operations.get(number) or Operation(number),
            jobs=tuple(by_id[job_id] for job_id in sorted(by_id)[-MOST_JOBS:]),
        )
        for number, by_id in jobs_of.items()
    }
    return with_operations(batch, changed)


def _latency_ms(info: BatchInfo) -> int | None:
    arrivals = [
        stream_input.earliest_arrival
        for stream_input in info.streamIdToInputInfo.values()
        if stream_input.earliest_arrival is not None
    ]
    if not arrivals or info.processingEndTime is None:
        return None
    # Arrival times come from another host, whose clock may be ahead.
    return max(info.processingEndTime - min(arrivals), 0)


def num_details(batch: Batch) -> int:
    """The number of inputs, output operations, jobs and stages that a record holds."""
    jobs = sum(len(operation.jobs) for operation in batch.operations or ())
    return len(batch.inputs or ()) + len(batch.operations or ()) + jobs + len(batch.stages)
