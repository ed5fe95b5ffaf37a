"""``ReceiverJob`` and the launcher: the Spark job of a launch, and where Spark runs it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.helpers import Gate

from penstock.receive.messages import RegisterReceiver
from penstock.runtime.threads import on_engine_thread
from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation
from penstock.track import receiver_launcher
from penstock.track.receiver_launcher import ReceiverJob

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]
TASK: Any = SimpleNamespace(stream_id=3, epoch=2, driver=SimpleNamespace(run_id="run"))


class Spark:
    """A SparkContext whose jobs the test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[object] = []
        self.on_count: Callable[[], None] = lambda: None
        self.setJobGroup = lambda *group: self.done.append(("group", *group))
        self.setName = lambda name: self.done.append(("name", name))
        monkeypatch.setattr(receiver_launcher, "located_rdd", self._located)

    def _located(self, _sc: object, partitions: list[Any]) -> Spark:
        self.done.append([partition.hosts for partition in partitions])
        return self

    def mapPartitionsWithIndex(self, task: object) -> Spark:
        self.done.append(task)
        return self

    def count(self) -> None:
        self.on_count()

    def cancelJobGroup(self, group: str) -> None:
        if "broken" in self.done:
            raise RuntimeError("no JVM")
        self.done.append(("cancelled", group))


def test_job_runs_the_task_on_its_hosts_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    spark, gate, ended = Spark(monkeypatch), Gate(), list[BaseException | None]()
    spark.on_count = gate
    job = ReceiverJob(cast(Any, spark), TASK, ("host-a",), ended.append)
    assert not job.finish(0)
    job.start()
    assert gate.reached.wait(10)
    assert not job.finish(0)
    assert spark.done == [
        ("group", "penstock-receiver-run-3-2", "Streaming job running receiver 3"),
        [("host-a",)],
        ("name", "Receiver 3"),
        TASK,
    ]
    job.cancel()
    assert spark.done[-1] == ("cancelled", job.group)
    assert ended == []
    gate.open()
    assert job.finish(10)
    assert ended == [None]


def test_error_of_a_job_is_reported_on_its_own_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spark, error, ended = Spark(monkeypatch), RuntimeError("the executor is gone"), list[object]()

    def fail() -> None:
        raise error

    spark.on_count = fail
    job = ReceiverJob(cast(Any, spark), TASK, (), lambda found: ended.append((found, on_engine_thread())))
    job.start()
    assert job.finish(10)
    assert ended == [(error, True)]
    spark.done.append("broken")
    job.cancel()
    assert "receiver job not cancelled" in caplog.text
    assert "no JVM" in caplog.text


@pytest.mark.parametrize(
    ("here", "there", "is_refused"),
    [("gauge 2.0", "gauge 1.9", True), ("gauge 2.0", "gauge 2.0", False), ("gauge 2.0", "", False), ("", "x 1", False)],
)
def test_receiver_of_another_plugin_version_is_refused(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch, here: str, there: str, is_refused: bool
) -> None:
    monkeypatch.setattr(receiver_launcher, "origin_of", lambda _kind, _plugins: here)
    launcher = make_tracker().launcher
    refusal = launcher.refusal(RegisterReceiver(0, 1, "Silent", 1, "host-a", plugin=there))
    assert bool(refusal) is is_refused
    if is_refused:
        assert refusal.startswith("host host-a runs gauge 1.9 and the driver gauge 2.0: install the same version")


def test_location_of_a_task_is_asked_for_until_spark_knows_it(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, place = make_tracker().launcher, TaskLocation("host-a", "1")
    monkeypatch.setattr(receiver_launcher, "_LOCATION_PAUSE_S", 0.001)
    answers: list[TaskLocation | None] = []
    asked: list[str] = []

    def running_task(_sc: object, group: str) -> TaskLocation | None:
        asked.append(group)
        return answers.pop() if answers else None

    monkeypatch.setattr(cluster, "running_task", running_task)
    job: Any = SimpleNamespace(group="group")
    answers[:] = [place, None, None]
    assert launcher.location_of(job, threading.Event()) == place
    assert asked == ["group"] * 3
    asked.clear()
    assert launcher.location_of(job, threading.Event()) is None
    assert len(asked) == 20
    # A stop does not wait for it.
    asked.clear()
    stopping = threading.Event()
    stopping.set()
    assert launcher.location_of(job, stopping) is None
    assert len(asked) == 1


@pytest.mark.parametrize(("master", "is_here"), [("local[8]", True), ("spark://elsewhere:7077", False)])
def test_receiver_on_this_machine_ends_with_the_driver(make_tracker: MakeTracker, master: str, is_here: bool) -> None:
    tracked = make_tracker(master=master)
    tracked.tracker.start()
    process = tracked.launch().task.driver.process
    assert (process is not None and process.pid == os.getpid()) is is_here
