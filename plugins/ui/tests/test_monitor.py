"""The monitor: what it asks the engine, and what it hands on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from attrs import evolve
from plugins.ui.tests.conftest import T, batch_events

from penstock import (
    BatchCompleted,
    ConfigurationError,
    ListenerCounts,
    ReceiverInfo,
    ReceiverStarted,
    SourceStatus,
    StopProgress,
    StorageInfo,
    StoreTimes,
    StreamingStarted,
)
from penstock_testing import FakeListenerContext
from penstock_ui.monitor import Monitor
from penstock_ui.own_events import ApplicationDescribed, JobsRun, RateChanged, Sampled
from penstock_ui.snapshot import Listener, RateChange, Storage
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.start import monitors
from penstock_ui.store import MetricsStore

NO_SERVER = {"spark.penstock.ui.enabled": "false"}


class Taken:
    """A sink that keeps what it takes."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.closed = 0

    def take(self, event: Any) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class Running:
    """A monitor beside a simulated application."""

    def __init__(self, **options: Any) -> None:
        self.context = FakeListenerContext(**options)
        self.taken = Taken()
        self.now_ms = T
        self.context.now_ms = lambda: self.now_ms  # type: ignore[method-assign]
        # Spark's jobs by id, those that it publishes late, and the queries for them.
        self.spark_jobs: dict[int, JobInfo] = {}
        self.late_jobs: dict[int, JobInfo] = {}
        self.is_spark_gone = False
        self.queries: list[tuple[int, int, float]] = []
        self.monitor = Monitor(self.context, MetricsStore(), [self.taken], self.jobs)

    def jobs(self, first: int, most: int, wait_s: float) -> list[JobInfo]:
        self.queries.append((first, most, wait_s))
        if self.is_spark_gone:
            raise OSError("gone")
        jobs = self.spark_jobs | (self.late_jobs if wait_s else {})
        return [job for job_id, job in sorted(jobs.items()) if job_id >= first][:most]

    def deliver(self, events: Sequence[Any]) -> None:
        for event in events:
            getattr(self.monitor, f"on{type(event).__name__}")(event)


@pytest.fixture
def running() -> Running:
    return Running()


def test_application_is_described_before_its_first_event(running: Running) -> None:
    (described,) = running.taken.events
    assert isinstance(described, ApplicationDescribed)
    state = running.monitor.snapshot()
    assert (state.application.id, state.application.name) == ("app-0", "tested")
    assert [(stream.name, stream.has_receiver) for stream in state.streams] == [
        ("Receiver-0", True),
        ("Receiver-1", True),
    ]
    assert [node.stream_id for node in state.graph] == [0, 1, None, None]


def test_engine_is_asked_when_a_batch_ends(running: Running) -> None:
    running.context.backlog = 77
    running.context.stored = StorageInfo(3, 4, 6, 5, T, 1, 2, T - 9000)
    running.context.counts = [ListenerCounts("x", 1, 2, True)]
    jobs = (JobInfo(8, T + 1000, 0, "SUCCEEDED", T, T + 5), JobInfo(9, T + 1000, 0, "FAILED", T, T + 9))
    running.spark_jobs = {7: JobInfo(7), **{job.job_id: job for job in jobs}}
    running.deliver(batch_events(1))
    state = running.monitor.snapshot()
    assert state.storage == Storage(77, 3, 4, 6, 5, T, 1, "", 2, T - 9000)
    assert state.listeners == (Listener("x", 1, 2, True),)
    assert state.completed[0].operations[0].jobs == jobs  # type: ignore[index]
    assert [type(event) for event in running.taken.events[-3:]] == [BatchCompleted, JobsRun, Sampled]


def test_engine_is_asked_at_most_once_a_second_for_snapshots(running: Running) -> None:
    for _ in range(10):
        running.monitor.snapshot()
    assert len(running.taken.of(Sampled)) == 1
    running.now_ms += 1000
    running.context.backlog = 5
    assert running.monitor.snapshot().storage.backlog_bytes == 5
    assert len(running.taken.of(Sampled)) == 2


def test_spark_is_asked_for_new_and_for_running_jobs_at_most_once_a_second(running: Running) -> None:
    runs = JobInfo(4, T + 1000, 0, "RUNNING", T, None, num_stages=2)
    ended = JobInfo(4, T + 1000, 0, "SUCCEEDED", T, T + 80, 2, 2)
    running.spark_jobs = {0: JobInfo(0, status="RUNNING"), 4: runs}
    running.deliver(batch_events(1))
    running.deliver(batch_events(2))
    assert running.queries == [(0, 500, 0.0)]
    running.now_ms += 1000
    running.monitor.snapshot()
    running.spark_jobs[4] = ended
    running.now_ms += 1000
    state = running.monitor.snapshot()
    running.now_ms += 1000
    running.monitor.snapshot()
    new, open_job = (5, 500, 0.0), (4, 1, 0.0)
    assert running.queries[1:] == [new, open_job, new, open_job, new]
    assert running.taken.of(JobsRun) == [JobsRun((runs,)), JobsRun((ended,))]
    assert state.completed[0].operations[0].jobs == (ended,)  # type: ignore[index]


def test_the_last_jobs_are_asked_for_before_the_context_has_stopped(running: Running) -> None:
    running.deliver(batch_events(1))
    job = JobInfo(0, T + 1000, 0, "SUCCEEDED", T, T + 1)
    running.late_jobs = {0: job}
    running.deliver([StopProgress(T, "batches", 1)])
    assert running.taken.of(JobsRun) == []
    running.deliver([StopProgress(T, "checkpoint", 0)])
    assert running.taken.of(JobsRun) == [JobsRun((job,))]


def test_sample_has_the_receivers_that_changed(running: Running) -> None:
    info = ReceiverInfo(0, "Receiver-0", True, "host", "1")
    running.context.observe(ReceiverStarted(info))
    for number in range(3):
        running.deliver(batch_events(number))
    assert [sample.receivers for sample in running.taken.of(Sampled)] == [(info,), (), ()]
    running.context.infos[0] = lost = ReceiverInfo(0, "Receiver-0", True, "host", "1", lost_blocks=2)
    running.deliver(batch_events(4))
    assert running.monitor.snapshot().streams[0].receiver == lost


def test_sample_of_a_changed_source_repeats_no_other_part_of_the_receiver(running: Running) -> None:
    info = ReceiverInfo(0, "Receiver-0", True, "host", "1")
    running.context.observe(ReceiverStarted(info))
    running.deliver(batch_events(1))
    running.context.infos[0] = behind = evolve(info, source=SourceStatus(20))
    running.deliver(batch_events(2))
    running.deliver(batch_events(3))
    samples = running.taken.of(Sampled)[1:]
    assert [(sample.receivers, dict(sample.sources)) for sample in samples] == [((), {0: SourceStatus(20)}), ((), {})]
    assert running.monitor.snapshot().streams[0].receiver == behind


def test_times_of_receivers_are_sampled_every_five_seconds_and_less_often_with_many(running: Running) -> None:
    def sampled(count: int, seconds: int) -> list[int]:
        """The number of receivers in each sample, one a second."""
        before = len(running.taken.of(Sampled))
        times = StoreTimes(elapsed=9)
        running.context.infos.update({n: ReceiverInfo(n, f"R-{n}", True, "", "", times=times) for n in range(count)})
        for number in range(seconds):
            running.now_ms += 1000
            running.deliver(batch_events(before + number))
        return [len(sample.times) for sample in running.taken.of(Sampled)[before:]]

    assert sampled(2, 11) == [2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2]
    assert sampled(1000, 12) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1000, 0, 0]


def test_changed_rate_limit_is_noted_with_the_estimators_reason() -> None:
    running = Running(configuration={"spark.streaming.backpressure.enabled": "true"})
    estimator = running.context.rate_estimator(1)
    assert estimator is not None
    running.deliver(batch_events(1))
    assert running.taken.of(RateChanged) == []
    estimator.compute(T, 100, 50, 0)
    running.context.set_rate(1, 2000.0)
    running.deliver(batch_events(2))
    running.deliver(batch_events(3))
    assert running.taken.of(RateChanged) == [RateChanged(T, 1, 2000.0, "100 records took 50 ms")]
    stream = running.monitor.snapshot().stream(1)
    assert stream is not None
    assert stream.rate_changes == (RateChange(T, 2000.0, "100 records took 50 ms"),)


def test_engine_that_answers_no_more_ends_nothing(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: Any) -> Any:
        raise OSError("gone")

    monkeypatch.setattr(running.context, "storage", fails)
    running.is_spark_gone = True
    running.deliver(batch_events(1))
    assert running.monitor.snapshot().totals.completed_batches == 1


def test_everything_is_closed_once_after_the_last_phase_of_a_stop(running: Running) -> None:
    actions: list[str] = []
    running.monitor.at_close(lambda: actions.append("server"))
    running.deliver([StreamingStarted(T), StopProgress(T, "jobs", 0)])
    assert (actions, running.taken.closed) == ([], 0)
    running.deliver([StopProgress(T, "listeners", 0)])
    running.monitor.close()
    assert (actions, running.taken.closed) == (["server"], 1)
    assert not running.monitor.snapshot().is_live


def test_part_that_fails_to_close_leaves_none_open(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.monitor.at_close(lambda: 1 // 0)
    running.monitor.close()
    assert running.taken.closed == 1
    assert "monitoring not closed" in caplog.text


def test_everything_is_closed_when_the_start_of_the_program_fails(tmp_path: Any) -> None:
    context = FakeListenerContext({"spark.penstock.ui.port": "0", "spark.penstock.eventLog.dir": str(tmp_path)})
    assert len(monitors(context)) == 1
    assert context.ui_url.startswith("http://127.0.0.1:")
    base, _, token = context.ui_url.partition("/?token=")
    assert token
    assert context.batch_page == f"{base}/batch?id={{batch_time}}"
    running = threading.enumerate()
    context.stop()
    ended = set(running) - set(threading.enumerate())
    assert {thread.name for thread in ended} == {"penstock-ui", "penstock-event-log"}


@pytest.mark.parametrize(
    ("conf", "serves", "count"),
    [
        ({"spark.penstock.ui.port": "0"}, True, 1),
        ({"spark.ui.enabled": "false"}, False, 0),
        ({"spark.ui.enabled": "false", "spark.penstock.ui.enabled": "true", "spark.penstock.ui.port": "0"}, True, 1),
        (NO_SERVER, False, 0),
    ],
    ids=["as it comes", "like Spark's UI", "although Spark's UI is off", "off"],
)
def test_configuration_says_whether_there_is_a_server(conf: dict[str, str], serves: bool, count: int) -> None:
    context = FakeListenerContext(conf)
    found = monitors(context)
    assert (len(found), bool(context.ui_url)) == (count, serves)
    context.stop()


def test_taken_ports_leave_the_program_without_a_dashboard(caplog: pytest.LogCaptureFixture) -> None:
    first = FakeListenerContext({"spark.penstock.ui.port": "0"})
    monitors(first)
    port = str(urlsplit(first.ui_url).port)
    second = FakeListenerContext({"spark.penstock.ui.port": port, "spark.port.maxRetries": "0"})
    assert len(monitors(second)) == 1
    assert second.ui_url == ""
    assert "dashboard not started" in caplog.text
    first.stop()
    second.stop()


@pytest.mark.parametrize(
    "key",
    [
        "spark.penstock.ui.prot",
        "spark.penstock.eventLog.directory",
        "spark.streaming.ui.retainedBatch",
    ],
)
def test_unknown_option_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown option"):
        monitors(FakeListenerContext({key: "1"}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.penstock.ui.port", "70000"),
        ("spark.penstock.ui.port", "-1"),
        ("spark.penstock.ui.enabled", "maybe"),
        ("spark.penstock.ui.host", ""),
        ("spark.streaming.ui.retainedBatches", "0"),
        ("spark.penstock.eventLog.maxFiles", "1"),
    ],
)
def test_invalid_option_is_refused_with_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=key.rpartition(".")[2]):
        monitors(FakeListenerContext({key: value}))


def test_retained_batches_are_those_of_sparks_key() -> None:
    context = FakeListenerContext({"spark.streaming.ui.retainedBatches": "3", "spark.penstock.ui.port": "0"})
    (monitor,) = monitors(context)
    for number in range(5):
        for event in batch_events(number):
            getattr(monitor, f"on{type(event).__name__}")(event)
    assert len(monitor.snapshot().completed) == 3
    context.stop()
