"""REST: Spark's fields, one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from plugins.ui.tests.conftest import FixedSource, T, batch_events, state_of

from penstock import ReceiverError, ReceiverInfo, ReceiverStarted, SourceStatus
from penstock_ui.own_events import JobsRun, RateChanged, Sampled
from penstock_ui.rest import BadRequestError, NotFoundError, respond
from penstock_ui.snapshot import Listener, Storage
from penstock_ui.spark_jobs import JobInfo

BASE = ["applications", "app-0", "streaming"]
# As org.apache.spark.status.api.v1.streaming has them; those marked with ? are absent while they are not known.
FIELDS = {
    "statistics": """startTime? batchDuration numReceivers numActiveReceivers numInactiveReceivers
        numTotalCompletedBatches numRetainedCompletedBatches numActiveBatches numProcessedRecords numReceivedRecords
        avgInputRate? avgSchedulingDelay? avgProcessingTime? avgTotalDelay?""",
    "receiver": """streamId streamName isActive? executorId? executorHost? lastErrorTime? lastErrorMessage? lastError?
        avgEventRate? eventRates""",
    "batch": """batchId batchTime status batchDuration inputSize schedulingDelay? processingTime? totalDelay?
        numActiveOutputOps numCompletedOutputOps numFailedOutputOps numTotalOutputOps firstFailureReason?""",
    "operation": "outputOpId name description startTime? endTime? duration? failureReason? jobIds",
}


def fields(kind: str, *, optional: bool) -> set[str]:
    names = FIELDS[kind].split()
    return {name.removesuffix("?") for name in names if optional or not name.endswith("?")}


def get(source: FixedSource, *path: object, **query: list[str]) -> Any:
    return respond(source.state, [*BASE, *map(str, path)], query)


def test_known_state_has_every_field_of_spark(run: list[Any]) -> None:
    failed = ReceiverInfo(0, "Receiver-0", True, "host", "1", "lost", "Traceback", T)
    source = FixedSource(state_of([*run, ReceiverError(failed), *batch_events(100, failure="ValueError: bad")]))
    batch = T + 100_000
    assert get(source, "statistics").keys() == fields("statistics", optional=True)
    assert get(source, "receivers", 0).keys() == fields("receiver", optional=True)
    assert get(source, "batches", batch).keys() == fields("batch", optional=True)
    assert get(source, "batches", batch, "operations", 0).keys() == fields("operation", optional=True)


def test_unknown_values_are_absent(run: list[Any]) -> None:
    source = FixedSource(state_of([run[0], batch_events(1)[0]]))
    assert get(source, "statistics").keys() - fields("statistics", optional=False) == {"avgInputRate"}
    assert get(source, "receivers", 0).keys() - fields("receiver", optional=False) == {"avgEventRate"}
    assert get(source, "batches", T + 1000).keys() == fields("batch", optional=False)


def test_source_of_a_receiver_has_the_known_values_of_its_last_report(run: list[Any]) -> None:
    info = ReceiverInfo(
        0, "Receiver-0", True, "", "", source=SourceStatus(12, redelivered=1, lag_by_partition={"t/0": 12})
    )
    source = FixedSource(state_of([*run, ReceiverStarted(info)]))
    (stream,) = [stream for stream in get(source, "monitoring")["streams"] if stream["streamId"] == 0]
    assert stream["source"] == {
        "lagMessages": 12,
        "numRedelivered": 1,
        "numDeadLetters": 0,
        "lagByPartition": {"t/0": 12},
    }


def test_values_are_those_of_the_events(run: list[Any]) -> None:
    jobs = JobsRun((JobInfo(4, T + 1000, 0), JobInfo(5, T + 1000, 0)))
    source = FixedSource(state_of([run[0], *batch_events(1, {0: 10, 1: 30}), jobs]))
    date = datetime.fromtimestamp(T // 1000 + 1, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert get(source, "batches") == [get(source, "batches", T + 1000)]
    assert get(source, "batches", T + 1000) == {
        "batchId": T + 1000,
        "batchTime": f"{date}.000GMT",
        "status": "COMPLETED",
        "batchDuration": 1000,
        "inputSize": 40,
        "schedulingDelay": 10,
        "processingTime": 200,
        "totalDelay": 210,
        "numActiveOutputOps": 0,
        "numCompletedOutputOps": 1,
        "numFailedOutputOps": 0,
        "numTotalOutputOps": 1,
    }
    assert get(source, "batches", T + 1000, "operations") == [
        {
            "outputOpId": 0,
            "name": "op0",
            "description": "op0 at app.py",
            "startTime": f"{date}.015GMT",
            "endTime": f"{date}.215GMT",
            "duration": 200,
            "jobIds": [4, 5],
        }
    ]
    assert get(source, "receivers", 1)["eventRates"] == [(T + 1000, 30.0)]
    statistics = get(source, "statistics")
    assert (statistics["numReceivers"], statistics["numInactiveReceivers"]) == (2, 2)
    assert (statistics["avgInputRate"], statistics["avgTotalDelay"]) == (40.0, 210)


def test_operation_has_the_metadata_of_its_output(run: list[Any]) -> None:
    written = {"table": "orders", "rows": 3, "commit_seconds": 0.25}
    source = FixedSource(state_of([run[0], *batch_events(1, metadata=written)]))
    assert get(source, "batches", T + 1000, "operations", 0)["metadata"] == written


def test_batches_are_chosen_by_status_newest_first() -> None:
    source = FixedSource(
        state_of([*batch_events(1), *batch_events(2), *batch_events(3)[:2], *batch_events(4)[:1]]),
    )

    def numbers(*statuses: str) -> list[int]:
        found = respond(source.state, ["applications", "", "streaming", "batches"], {"status": statuses})
        return [(batch["batchId"] - T) // 1000 for batch in found]

    assert numbers() == [4, 3, 2, 1]
    assert numbers("COMPLETED") == [2, 1]
    assert numbers("processing") == [3]
    assert numbers("QUEUED", "PROCESSING") == [4, 3]
    with pytest.raises(BadRequestError):
        numbers("DONE")


@pytest.mark.parametrize(
    "path",
    [
        ["applications", "other", "streaming", "statistics"],
        ["applications", "app-0", "jobs"],
        ["version"],
        [],
        [*BASE],
        [*BASE, "receivers", "9"],
        [*BASE, "receivers", "x"],
        [*BASE, "receivers", "-1"],
        [*BASE, "batches", "1"],
        [*BASE, "batches", "9" * 5000],
        [*BASE, "batches", "\u0661"],
        [*BASE, "batches", str(T), "operations"],
        [*BASE, "batches", str(T + 1_000), "operations", "77"],
        [*BASE, "batches", str(T + 1_000), "stages"],
    ],
    ids=lambda path: "/".join(path[2:])[:60] or "/".join(path) or "root",
)
def test_unknown_path_or_id_is_not_found(source: FixedSource, path: list[str]) -> None:
    with pytest.raises(NotFoundError):
        respond(source.state, path, {})


def test_applications_lists_the_one(source: FixedSource) -> None:
    (application,) = respond(source.state, ["applications"], {})
    assert application["id"] == "app-0"
    assert respond(source.state, ["applications", "app-0"], {}) == application


@pytest.mark.parametrize("awaits_rerun", [False, True])
def test_failed_batch_says_that_it_runs_again(run: list[Any], awaits_rerun: bool) -> None:
    events = [run[0], *batch_events(1, failure="down", awaits_rerun=awaits_rerun)]
    assert get(FixedSource(state_of(events)), "batches")[0].get("awaitsRerun", False) is awaits_rerun


def test_monitoring_has_what_spark_has_no_field_for(run: list[Any]) -> None:
    stored = Sampled(T + 5000, Storage(1, 2, 3, 4, 5, T, 6, "", 7, T - 9000), (Listener("x", 1, 2, True),))
    events = [run[0], *batch_events(1, {0: 10, 1: 30}, arrival=T + 15), RateChanged(T, 1, 12.5, "why"), stored]
    found = get(FixedSource(state_of(events)), "monitoring")
    assert found["latency"] == {"count": 1, "mean": 1200.0, "p50": 1200, "p95": 1200, "p99": 1200, "max": 1200}
    assert (found["backlogBytes"], found["numBlocks"], found["blockDiskBytes"]) == (1, 2, 3)
    assert (found["bufferedBytes"], found["driverLogBytes"]) == (4, 5)
    assert (found["checkpointAge"], found["checkpointFailures"]) == (5000, 6)
    assert found["numBatchesAwaitingRerun"] == 7
    assert found["oldestFailedBatch"] < found["checkpointTime"]
    assert found["listeners"] == [{"name": "x", "dropped": 1, "failed": 2, "isDisabled": True}]
    _, stream = found["streams"]
    assert (stream["numRecords"], stream["rateLimit"]) == (30, 12.5)
    assert [(each["rateLimit"], each["reason"]) for each in stream["rateChanges"]] == [(12.5, "why")]


def test_limit_is_the_most_items_of_a_list(source: FixedSource) -> None:
    newest = source.state.batches[-1].time_ms
    assert [batch["batchId"] for batch in get(source, "batches", limit=["1"])] == [newest]
    assert [len(receiver["eventRates"]) for receiver in get(source, "receivers", limit=["3"])] == [3, 3]
    assert len(get(source, "batches", limit=["999"])) == 20
    for wrong in ("0", "-1", "x", "1e3", "9" * 50, ""):
        with pytest.raises(BadRequestError):
            get(source, "batches", limit=[wrong])
