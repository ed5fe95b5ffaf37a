"""The REST interface, in the shape of Spark's for streaming: pure functions from a snapshot to JSON values.

Fields have Spark's names and units; as in Spark, an unknown value is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from penstock import SourceStatus
from penstock_ui.snapshot import Batch, BatchStatus, Distribution, Operation, Snapshot, Stream

Json = dict[str, Any]


@frozen
class NotFoundError(Exception):
    """The requested resource does not exist; the message names it."""

    message: str


@frozen
class BadRequestError(Exception):
    """An argument is invalid; the message says which and why."""

    message: str


#: Arguments of a query, unparsed.
Query = Mapping[str, Sequence[str]]


def respond(snapshot: Snapshot, path: Sequence[str], query: Query) -> Any:
    """Answer a request.

    Args:
        snapshot: the state of the application.
        path: the parts of the path after ``/api/v1/``.
        query: the arguments.

    Raises:
        NotFoundError: the path or an id in it is unknown.
        BadRequestError: an argument is invalid.
    """
    match path:
        case ["applications"]:
            return [application(snapshot)]
        case ["applications", app_id, *_] if app_id != snapshot.application.id:
            raise NotFoundError(f"unknown app {app_id!r}: this server has {snapshot.application.id!r}")
        case ["applications", _]:
            return application(snapshot)
        case ["applications", _, "streaming", *rest]:
            return _streaming(snapshot, rest, query)
        case _:
            raise NotFoundError(f"no such resource: /api/v1/{'/'.join(path)}")


def _streaming(snapshot: Snapshot, path: Sequence[str], query: Query) -> Any:
    match path:
        case ["statistics"]:
            return statistics(snapshot)
        case ["receivers"]:
            limit = _limit(query)
            return [receiver(snapshot, stream, limit) for stream in snapshot.streams]
        case ["receivers", stream_id]:
            stream = snapshot.stream(_number(stream_id, "receiver"))
            if stream is None:
                raise NotFoundError(f"unknown receiver: {stream_id}")
            return receiver(snapshot, stream)
        case ["batches"]:
            wanted = _statuses(query.get("status", ()))
            # Spark's order: the newest first.
            entries = [entry for entry in reversed(snapshot.batches) if entry.status in wanted]
            return [batch(snapshot, entry) for entry in entries[: _limit(query)]]
        case ["monitoring"]:
            return monitoring(snapshot)
        case ["batches", batch_id]:
            return batch(snapshot, _batch(snapshot, batch_id))
        case ["batches", batch_id, "operations"]:
            return [operation(op) for op in _operations(_batch(snapshot, batch_id))]
        case ["batches", batch_id, "operations", operation_id]:
            number = _number(operation_id, "output operation")
            for op in _operations(_batch(snapshot, batch_id)):
                if op.id == number:
                    return operation(op)
            raise NotFoundError(f"unknown output operation {operation_id} of batch {batch_id}")
        case _:
            raise NotFoundError(f"no such resource: streaming/{'/'.join(path)}")


def application(snapshot: Snapshot) -> Json:
    """The application, with the fields of Spark's resource ``applications``."""
    started = _date(snapshot.started_ms)
    return _known(
        {
            "id": snapshot.application.id,
            "name": snapshot.application.name,
            "attempts": [_known({"startTime": started, "completed": not snapshot.is_live})],
        }
    )


def statistics(snapshot: Snapshot) -> Json:
    """Counts and averages of the whole application."""
    batches = snapshot.batches
    interval_ms = snapshot.application.batch_interval_ms
    return _known(
        {
            "startTime": _date(snapshot.started_ms),
            "batchDuration": interval_ms,
            "numReceivers": len(snapshot.receivers),
            "numActiveReceivers": snapshot.active_receivers,
            "numInactiveReceivers": len(snapshot.receivers) - snapshot.active_receivers,
            "numTotalCompletedBatches": snapshot.totals.completed_batches,
            "numRetainedCompletedBatches": len(snapshot.completed),
            "numActiveBatches": len(snapshot.waiting) + len(snapshot.running),
            "numProcessedRecords": snapshot.totals.processed_records,
            "numReceivedRecords": snapshot.totals.received_records,
            "avgInputRate": _mean(batch.records * 1000 / interval_ms for batch in batches),
            "avgSchedulingDelay": _whole(_mean(batch.scheduling_delay_ms for batch in batches)),
            "avgProcessingTime": _whole(_mean(batch.processing_delay_ms for batch in batches)),
            "avgTotalDelay": _whole(_mean(batch.total_delay_ms for batch in batches)),
        }
    )


def receiver(snapshot: Snapshot, stream: Stream, limit: int | None = None) -> Json:
    """An input stream, its receiver if it has one, and its rates in the last ``limit`` batches."""
    info = stream.receiver
    batches = [batch for batch in snapshot.batches[-limit if limit else 0 :] if batch.inputs is not None]
    rates = [(batch.time_ms, snapshot.input_rate(batch, stream.id)) for batch in batches]
    return _known(
        {
            "streamId": stream.id,
            "streamName": stream.name,
            "isActive": None if info is None else info.active,
            "executorId": None if info is None else info.executorId,
            "executorHost": None if info is None else info.location,
            "lastErrorTime": None if info is None or info.lastErrorTime < 0 else _date(info.lastErrorTime),
            "lastErrorMessage": None if info is None or info.lastErrorTime < 0 else info.lastErrorMessage,
            "lastError": None if info is None or info.lastErrorTime < 0 else info.lastError,
            "avgEventRate": _mean(rate for _time, rate in rates),
            "eventRates": rates,
        }
    )


def batch(snapshot: Snapshot, batch: Batch) -> Json:
    """A batch."""
    return _known(
        {
            "batchId": batch.time_ms,
            "batchTime": _date(batch.time_ms),
            "status": batch.status.value,
            "batchDuration": snapshot.application.batch_interval_ms,
            "inputSize": batch.records,
            "schedulingDelay": batch.scheduling_delay_ms,
            "processingTime": batch.processing_delay_ms,
            "totalDelay": batch.total_delay_ms,
            "numActiveOutputOps": sum(
                op.started_ms is not None and op.ended_ms is None for op in batch.operations or ()
            ),
            "numCompletedOutputOps": batch.num_succeeded,
            "numFailedOutputOps": batch.num_failed,
            "numTotalOutputOps": batch.num_operations,
            "firstFailureReason": batch.first_failure,
            # Absent for all others: Spark's batches have no such field.
            "awaitsRerun": batch.awaits_rerun or None,
        }
    )


def operation(operation: Operation) -> Json:
    """An output operation of a batch."""
    return _known(
        {
            "outputOpId": operation.id,
            "name": operation.name,
            "description": operation.description,
            "startTime": _date(operation.started_ms),
            "endTime": _date(operation.ended_ms),
            "duration": operation.duration_ms,
            "failureReason": operation.failure,
            "jobIds": [job.job_id for job in operation.jobs],
            # Absent without: Spark's operations have no such field.
            "metadata": operation.metadata or None,
        }
    )


def monitoring(snapshot: Snapshot) -> Json:
    """State that Spark's resources have no field for."""
    storage, totals = snapshot.storage, snapshot.totals
    age_ms = None if storage.checkpoint_ms is None else max(snapshot.time_ms - storage.checkpoint_ms, 0)
    return _known(
        {
            "isLive": snapshot.is_live,
            "stopPhase": snapshot.stop_phase or None,
            "numFailedBatches": totals.failed_batches,
            "latency": _distribution(snapshot.latency),
            "generationDelay": _distribution(snapshot.generation_delay),
            "schedulingDelay": _distribution(snapshot.scheduling_delay),
            "processingTime": _distribution(snapshot.processing_delay),
            "totalDelay": _distribution(snapshot.total_delay),
            "backlogBytes": storage.backlog_bytes,
            "numBlocks": storage.blocks,
            "blockDiskBytes": storage.block_disk_bytes,
            "bufferedBytes": storage.buffered_bytes,
            "driverLogBytes": storage.driver_log_bytes,
            "checkpointTime": _date(storage.checkpoint_ms),
            "checkpointAge": age_ms,
            "checkpointFailures": storage.checkpoint_failures,
            "checkpointError": storage.checkpoint_error or None,
            "numBatchesAwaitingRerun": storage.failed_batches,
            "oldestFailedBatch": _date(storage.oldest_failed_ms),
            "listeners": [
                {
                    "name": listener.name,
                    "dropped": listener.dropped,
                    "failed": listener.failed,
                    "isDisabled": listener.disabled,
                }
                for listener in snapshot.listeners
            ],
            "streams": [_stream(stream) for stream in snapshot.streams],
        }
    )


def _stream(stream: Stream) -> Json:
    info = stream.receiver
    return _known(
        {
            "streamId": stream.id,
            "streamName": stream.name,
            "type": stream.type,
            "hasReceiver": stream.has_receiver,
            "numRecords": stream.records,
            "numRestarts": stream.restarts,
            "numErrors": stream.errors,
            "numLostBlocks": None if info is None else info.lost_blocks,
            "numLostRecords": None if info is None else info.lost_records,
            "isUnhealthy": None if info is None else info.unhealthy,
            "isGivenUp": None if info is None else info.given_up,
            "source": None if info is None or info.source is None else _source(info.source),
            "timeBudget": None if stream.budget is None else dict(stream.budget.shares),
            "rateLimit": stream.rate_limit,
            "rateChanges": [
                _known({"time": _date(change.time_ms), "rateLimit": change.limit, "reason": change.reason})
                for change in stream.rate_changes
            ],
        }
    )


def _source(source: SourceStatus) -> Json:
    return _known(
        {
            "lagMessages": source.lag_messages,
            "lagSeconds": source.lag_s,
            "oldestUnacknowledgedSeconds": source.oldest_unacknowledged_s,
            "numRedelivered": source.redelivered,
            "numDeadLetters": source.dead_letters,
            "lagByPartition": dict(source.lag_by_partition) or None,
        }
    )


def _distribution(distribution: Distribution | None) -> Json | None:
    if distribution is None:
        return None
    return {
        "count": distribution.count,
        "mean": distribution.mean,
        "p50": distribution.p50,
        "p95": distribution.p95,
        "p99": distribution.p99,
        "max": distribution.maximum,
    }


def _batch(snapshot: Snapshot, batch_id: str) -> Batch:
    batch = snapshot.batch(_number(batch_id, "batch"))
    if batch is None:
        raise NotFoundError(f"unknown batch: {batch_id}")
    return batch


def _operations(batch: Batch) -> tuple[Operation, ...]:
    if batch.operations is None:
        raise NotFoundError(f"the output operations of batch {batch.time_ms} are not retained any more")
    return batch.operations


def _number(text: str, what: str) -> int:
    # A longer number is not an id, and parsing it would take long.
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise NotFoundError(f"unknown {what}: {text}")
    return int(text)


def _limit(query: Query) -> int | None:
    """The argument ``limit``: the maximum number of items."""
    values = query.get("limit")
    if not values:
        return None
    text = values[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
        raise BadRequestError(f"limit={text}: must be a number above 0")
    return int(text)


def _statuses(names: Sequence[str]) -> set[BatchStatus]:
    statuses = {status.value: status for status in BatchStatus}
    for name in names:
        if name.upper() not in statuses:
            raise BadRequestError(f"status={name}: must be one of {', '.join(statuses)}")
    return {statuses[name.upper()] for name in names} or set(BatchStatus)


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _date(time_ms: int | None) -> str | None:
    """A time as Spark's REST writes it: ``2015-05-03T13:06:00.602GMT``."""
    if time_ms is None:
        return None
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}GMT"


def _known(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}
