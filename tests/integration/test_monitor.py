"""The monitor beside a program that runs on Spark: what it shows equals what the events say."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from pyspark import TaskContext
from tests.helpers import wait_for

from penstock import BatchCompleted, BatchInfo, StreamingContext, ThreadReceiver
from penstock.runtime.clock import iso_time
from penstock_ui.event_log import read_history

pytestmark = pytest.mark.spark


class Tens(ThreadReceiver[int]):
    """Stores ten records at a time."""

    def receive(self) -> None:
        while not self.isStopped():
            self.store_all(range(10))


class Completed:
    """Collects the batches that completed."""

    never_drop = True

    def __init__(self) -> None:
        self.infos: dict[int, BatchInfo] = {}

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.infos[batchCompleted.batchInfo.batchTime] = batchCompleted.batchInfo


def description_of_job(_record: int) -> str:
    context: Any = TaskContext.get()
    return str(context.getLocalProperty("spark.job.description"))


def fail_with_records(rdd: Any) -> None:
    assert rdd.isEmpty(), "there are records"


def fail_with_bytes(_rdd: Any) -> None:
    raise ValueError("caf\udce9")


def test_rest_and_history_equal_the_events(make_ssc: Callable[..., StreamingContext], tmp_path: Path) -> None:
    conf = {
        "spark.penstock.ui.enabled": "true",
        "spark.penstock.ui.port": "0",
        "spark.streaming.receiver.maxRate": "200",
        "spark.penstock.eventLog.dir": str(tmp_path / "log"),
        "spark.streaming.checkpoint.directory": str(tmp_path / "checkpoint"),
    }
    # Shorter intervals would let batches queue up on a busy machine, and the stop waits for them.
    ssc = make_ssc(1, conf)
    numbers, listener = ssc.receiverStream(Tens()), Completed()
    descriptions: set[str] = set()
    numbers.foreachRDD(lambda rdd: descriptions.update(rdd.map(description_of_job).collect()))
    numbers.foreachRDD(fail_with_records)
    ssc.addStreamingListener(listener)
    assert ssc.uiWebUrl is None
    began_s = time.monotonic()
    ssc.start()
    url, _, token = str(ssc.uiWebUrl).partition("/?token=")
    bearer = {"Authorization": f"Bearer {token}"}

    def get(path: str) -> Any:
        resource = f"{url}/api/v1/applications/{ssc.sparkContext.applicationId}/streaming/{path}"
        with urlopen(Request(resource, headers=bearer)) as response:
            return json.load(response)

    wait_for(lambda: sum(info.numRecords > 0 for info in list(listener.infos.values())) >= 3, "batches with records")
    last = max(listener.infos)
    wait_for(
        lambda: any(resource["batchId"] == last for resource in get("batches?status=COMPLETED")), "the last in REST"
    )
    batches = {batch["batchId"]: batch for batch in get("batches?status=COMPLETED")}
    assert get("statistics")["numTotalCompletedBatches"] >= len(batches) >= 3
    for batch_time, batch in batches.items():
        info = listener.infos[batch_time]
        assert batch["inputSize"] == info.numRecords
        assert batch["schedulingDelay"] == info.schedulingDelay
        assert batch["processingTime"] == info.processingDelay
        assert batch["totalDelay"] == info.totalDelay
        failures = [
            outputOperationInfo.failureReason
            for outputOperationInfo in info.outputOperationInfos.values()
            if outputOperationInfo.failureReason
        ]
        assert batch["numFailedOutputOps"] == len(failures) == (info.numRecords > 0)
        assert batch.get("firstFailureReason") == (failures[0] if failures else None)
        operations = get(f"batches/{batch_time}/operations")
        assert [resource["name"] for resource in operations] == [
            outputOperationInfo.name for outputOperationInfo in info.outputOperationInfos.values()
        ]
    (receiver,) = get("receivers")
    assert (receiver["streamName"], receiver["isActive"]) == ("Tens-0", True)
    with urlopen(Request(f"{url}/metrics", headers=bearer)) as response:
        metrics = response.read().decode()
    assert 'penstock_batch_latency_seconds{percentile="50"} ' in metrics
    assert "penstock_last_checkpoint_timestamp_seconds " in metrics
    assert "penstock_driver_write_ahead_log_bytes " in metrics
    busy = next(batch_time for batch_time, batch in batches.items() if batch["inputSize"])
    described = f"Streaming job from [output operation 0, batch time {iso_time(busy)}] {url}/batch?id={busy}"
    assert described in descriptions
    wait_for(lambda: all(resource["jobIds"] for resource in get(f"batches/{busy}/operations")), "the batch's jobs")
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    assert ssc.uiWebUrl is None
    most_ms = (time.monotonic() - began_s) * 1000
    history = read_history(str(tmp_path / "log")).snapshot()
    assert {batch.time_ms: batch.records for batch in history.completed} == {
        batch_time: info.numRecords for batch_time, info in listener.infos.items()
    }
    assert all(0 <= batch.latency_ms <= most_ms for batch in history.completed if batch.latency_ms is not None)
    assert any(batch.latency_ms is not None for batch in history.completed)
    full = [batch for batch in history.completed if batch.records]
    jobs = [job for batch in full for operation in batch.operations or () for job in operation.jobs]
    assert {(job.batch_time, job.output_op_id) for job in jobs} == {
        (batch.time_ms, number) for batch in full for number in (0, 1)
    }
    assert {(job.status, job.num_stages, job.num_succeeded_stages) for job in jobs} == {("SUCCEEDED", 1, 1)}
    assert all(job.num_succeeded_tasks == job.num_tasks >= 1 and job.num_failed_tasks == 0 for job in jobs)
    assert all(0 <= (job.completed_ms or 0) - (job.submitted_ms or 0) <= most_ms for job in jobs)
    assert history.stop_phase == "listeners"


def test_silent_connections_at_the_dashboard_delay_neither_batches_nor_the_stop(
    make_ssc: Callable[..., StreamingContext], tmp_path: Path
) -> None:
    conf = {
        "spark.penstock.ui.enabled": "true",
        "spark.penstock.ui.port": "0",
        "spark.streaming.checkpoint.directory": str(tmp_path / "checkpoint"),
        "spark.streaming.receiver.writeAheadLog.enable": "true",
    }
    ssc = make_ssc(0.2, conf)
    numbers, listener = ssc.receiverStream(Tens()), Completed()
    # Both the name and the error hold bytes that are no UTF-8.
    numbers.setName("caf\udce9").foreachRDD(lambda rdd: rdd.count())
    numbers.foreachRDD(fail_with_bytes)
    ssc.addStreamingListener(listener)
    ssc.start()
    parts = urlsplit(str(ssc.uiWebUrl))
    connections = [socket.create_connection((parts.hostname, parts.port), timeout=10) for _ in range(500)]
    try:
        for connection in connections[300:]:
            # The server closes the oldest connections while these are opened.
            with suppress(OSError):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: local")
        before = len(listener.infos)
        wait_for(lambda: len(listener.infos) >= before + 5, "batches beside the connections")
        delays = [info.totalDelay for info in list(listener.infos.values())[-3:]]
        assert all(delay is not None and delay < 5000 for delay in delays)
        bearer = {"Authorization": f"Bearer {parts.query.partition('=')[2]}"}
        for path in ("/", "/metrics"):
            with urlopen(Request(f"http://{parts.netloc}{path}", headers=bearer), timeout=10) as response:
                assert "caf\ufffd" in response.read().decode()
        begun = time.monotonic()
        ssc.stop(stopSparkContext=False)
        assert time.monotonic() - begun < 10
    finally:
        for connection in connections:
            connection.close()
