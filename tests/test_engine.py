"""``Engine``: the order in which it starts and stops its parts, which only record what they are asked for."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from tests.checkpoint.samples import FIRST

from penstock import engine as engine_module
from penstock.checkpoint.checkpointer import Checkpointer, FinalStateCheckpoint
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import RecoveredRun, Recovery
from penstock.conf import Settings
from penstock.engine import Engine
from penstock.errors import ConfigurationError
from penstock.graph.dstream_graph import DStreamGraph
from penstock.listen.events import Event
from penstock.listen.listener_bus import ListenerBus
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.schedule.job_generator import JobGenerator
from penstock.schedule.job_scheduler import JobScheduler
from penstock.spark import cluster
from penstock.spark.local_properties import LocalProperties
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_launcher import ReceiverLauncher
from penstock.track.receiver_tracker import ReceiverTracker
from penstock_testing import ManualClock

MADE = (
    ReceiverLauncher,
    ReceiverTracker,
    JobScheduler,
    JobGenerator,
    FinalStateCheckpoint,
    LocalProperties,
    Checkpointer,
)


class Part:
    """Records each call that the real part would accept, and answers as the test says, else ``None``."""

    def __init__(self, kind: type[Any], parts: Parts) -> None:
        self._kind = kind
        self._parts = parts

    def __getattr__(self, method: str) -> Callable[..., Any]:
        signature = inspect.signature(getattr(self._kind, method))

        def call(*arguments: Any, **options: Any) -> Any:
            signature.bind(self, *arguments, **options)
            return self._parts.call(f"{self._kind.__name__}.{method}", *arguments, **options)

        return call


class Parts:
    """The parts of an engine, and the calls of their methods, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.answers: dict[str, Callable[..., Any]] = {}
        self.events: list[Event] = []
        self.made_with: dict[str, tuple[Any, ...]] = {}
        self.made = {kind.__name__: Part(kind, self) for kind in MADE}
        for name in self.made:
            monkeypatch.setattr(engine_module, name, self._maker(name))
        self.made["ReceiverLauncher"].__dict__["run_id"] = "app-1-a"
        self.made["ReceiverTracker"].__dict__["blocks"] = Part(ReceivedBlockTracker, self)
        self.scheduler = self.made["JobScheduler"].__dict__
        self.scheduler.update(pending_batches=[], failed_batches=[], input_info=InputInfoTracker())
        self.answers["Recovery.prepare"] = lambda: RecoveredRun(
            cast(Any, SimpleNamespace(name="directory", claim=None)), FIRST
        )
        self.answers["JobGenerator.stop"] = self.answers["Checkpointer.stop"] = lambda *_arguments: True

    def _maker(self, name: str) -> Callable[..., Part]:
        kind = getattr(engine_module, name)

        def make(*arguments: Any, **options: Any) -> Part:
            inspect.signature(kind).bind(*arguments, **options)
            self.made_with[name] = arguments
            return self.made[name]

        return make

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Record a call and answer it."""
        self.calls.append(name)
        answer = self.answers.get(name)
        return None if answer is None else answer(*arguments, **options)

    def fail(self, name: str, error: Exception) -> None:
        """Have a method raise."""

        def fails(*_arguments: Any, **_options: Any) -> None:
            raise error

        self.answers[name] = fails

    def calls_of(self, *names: str) -> list[str]:
        """The calls of these methods, in order."""
        return [name for name in self.calls if name in names]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    return Parts(monkeypatch)


def do_nothing(_error: BaseException) -> None:
    pass


@pytest.fixture
def make_engine(parts: Parts) -> Callable[[], Engine]:
    bus, recovery = Part(ListenerBus, parts), Part(Recovery, parts)
    parts.answers["ListenerBus.post"] = parts.events.append
    program = Program(None, cast(Any, None), Settings.parse({}), ManualClock(5000), DStreamGraph(cast(Any, None), 100))
    return lambda: Engine(program, cast(Any, bus), cast(Any, recovery), do_nothing, do_nothing)


@pytest.fixture
def engine(make_engine: Callable[[], Engine]) -> Engine:
    return make_engine()


def test_program_that_cannot_run_takes_the_checkpoint_directory_from_nobody(
    parts: Parts, make_engine: Callable[[], Engine]
) -> None:
    parts.fail("ReceiverLauncher.check", ConfigurationError("too few cores"))
    with pytest.raises(ConfigurationError, match="too few cores"):
        make_engine()
    assert parts.calls == ["ReceiverLauncher.check"]


def test_refused_start_does_not_touch_the_checkpoints_of_an_earlier_run(engine: Engine, parts: Parts) -> None:
    parts.fail("ReceiverTracker.prepare", ConfigurationError("too few cores"))
    with pytest.raises(ConfigurationError, match="too few cores"):
        engine.start({})
    assert parts.calls_of("Checkpointer.start", "ReceiverTracker.start") == []


def test_refused_start_is_stopped_without_the_parts_that_did_not_start(
    engine: Engine, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.fail("ReceiverTracker.prepare", ConfigurationError("too few cores"))
    with pytest.raises(ConfigurationError, match="too few cores"):
        engine.start({})
    engine.abandon()
    engine.stop(None)
    assert parts.calls_of("JobGenerator.stop", "Checkpointer.stop", "ReceiverTracker.close") == [
        "ReceiverTracker.close"
    ]
    assert "stop phase failed" not in caplog.text


def test_checkpointer_starts_before_receivers(engine: Engine, parts: Parts) -> None:
    engine.start({})
    steps = "ReceiverTracker.prepare", "Checkpointer.start", "ReceiverTracker.start", "JobGenerator.start"
    assert parts.calls_of(*steps) == list(steps)


@pytest.fixture
def prepare(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the call that prepares the streams."""
    monkeypatch.setattr(DStreamGraph, "prepare", lambda _graph: parts.call("DStreamGraph.prepare"))
    return "DStreamGraph.prepare"


def test_streams_are_prepared_before_receivers_start(engine: Engine, parts: Parts, prepare: str) -> None:
    engine.start({})
    steps = "ReceiverTracker.prepare", prepare, "ReceiverTracker.start"
    assert parts.calls_of(*steps) == list(steps)


def test_failed_preparation_of_streams_is_logged_and_does_not_prevent_the_start(
    engine: Engine, parts: Parts, prepare: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts.fail(prepare, ConfigurationError("another SparkContext"))
    engine.start({})
    assert parts.calls_of("ReceiverTracker.start") == ["ReceiverTracker.start"]
    (logged,) = [record.getMessage() for record in caplog.records if "streams not prepared" in record.getMessage()]
    assert "another SparkContext" in logged


def test_start_does_not_wait_for_the_preparation_of_streams_after_its_timeout(
    engine: Engine, parts: Parts, prepare: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.engine")
    monkeypatch.setattr(engine_module, "_PREPARATION_S", 0.01)
    has_executors = threading.Event()
    parts.answers[prepare] = lambda: has_executors.wait(60)
    engine.start({})
    has_executors.set()
    assert parts.calls_of("ReceiverTracker.start") == ["ReceiverTracker.start"]
    assert "preparation of streams continues" in caplog.text


def test_unprocessed_input_of_a_graceful_stop_is_logged(
    engine: Engine, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    engine.start({})
    parts.answers["JobGenerator.stop"] = lambda *_arguments: False
    parts.answers["ReceivedBlockTracker.unallocated_records"] = lambda: {0: 900}
    parts.scheduler["pending_batches"] = [100, 200]
    engine.stop(time.monotonic() + 1)
    (logged,) = [record.getMessage() for record in caplog.records if "stopped with unprocessed" in record.getMessage()]
    assert "batches_left=2" in logged
    assert "records_left={0: 900}" in logged


def test_stop_at_once_abandons_the_scheduler_first(engine: Engine, parts: Parts) -> None:
    engine.start({})
    engine.stop(None)
    steps = "JobScheduler.abandon", "ReceiverTracker.stop", "JobGenerator.stop", "JobScheduler.stop"
    assert parts.calls_of(*steps) == list(steps)


def test_graceful_stop_does_not_abandon_the_scheduler(engine: Engine, parts: Parts) -> None:
    engine.start({})
    engine.stop(time.monotonic() + 1)
    assert parts.calls_of("JobScheduler.abandon") == []


def test_final_state_checkpoint_starts_with_the_engine_and_ends_with_any_stop(engine: Engine, parts: Parts) -> None:
    engine.start({})
    assert parts.calls_of("FinalStateCheckpoint.start") == ["FinalStateCheckpoint.start"]
    engine.stop(None)
    assert parts.calls_of("FinalStateCheckpoint.abandon", "FinalStateCheckpoint.write") == [
        "FinalStateCheckpoint.abandon"
    ]


def test_logs_are_closed_after_everything_that_may_write_to_them(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.calls.clear()
    engine.stop(time.monotonic() + 1)
    steps = [
        "ReceiverTracker.stop",
        "JobGenerator.stop",
        "JobScheduler.stop",
        "FinalStateCheckpoint.write",
        "JobGenerator.save",
        "Checkpointer.stop",
        "ReceiverTracker.close",
        "ReceiverTracker.release",
        "ReceiverTracker.delete_files",
        "ListenerBus.stop",
    ]
    assert parts.calls_of(*steps) == steps


def test_failed_stop_phase_does_not_prevent_the_later_ones(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.fail("ReceiverTracker.stop", OSError("the network is down"))
    parts.fail("JobGenerator.save", OSError("the disk is full"))
    engine.stop(None)
    assert parts.calls_of("JobGenerator.stop", "ReceiverTracker.close") == [
        "JobGenerator.stop",
        "ReceiverTracker.close",
    ]


def test_last_checkpoint_that_misses_the_deadline_is_logged(
    engine: Engine, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    engine.start({})
    parts.answers["Checkpointer.stop"] = lambda *_arguments: False
    engine.stop(time.monotonic() + 1)
    assert "last checkpoint not written before the deadline" in caplog.text


@pytest.mark.parametrize("is_gone", [False, True])
def test_immediate_stop_cancels_the_jobs_of_a_spark_that_runs(
    engine: Engine, parts: Parts, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    monkeypatch.setattr(cluster, "is_stopped", lambda _sc: is_gone)
    spark = SimpleNamespace(cancelAllJobs=lambda: parts.call("SparkContext.cancelAllJobs"))
    # The fault is injected after construction: the other parts keep the fixture's Spark.
    engine._program = evolve(engine._program, sc=cast(Any, spark))
    engine.start({})
    engine.stop_at_once()
    steps = "JobGenerator.abandon", "JobScheduler.abandon", "SparkContext.cancelAllJobs"
    assert parts.calls_of(*steps) == [*steps[:2], *([] if is_gone else steps[2:])]


def test_final_state_is_not_checkpointed_while_batches_remain(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.scheduler["pending_batches"] = [100]
    engine.stop(time.monotonic() + 1)
    assert parts.calls_of("FinalStateCheckpoint.write", "JobGenerator.save") == ["JobGenerator.save"]


def test_abandon_ends_the_wait_for_the_final_state_checkpoint(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.answers["FinalStateCheckpoint.write"] = lambda _end: engine.abandon()
    engine.stop(time.monotonic() + 1)
    assert parts.calls_of("FinalStateCheckpoint.write", "FinalStateCheckpoint.abandon") == [
        "FinalStateCheckpoint.write",
        "FinalStateCheckpoint.abandon",
    ]


def test_final_state_is_not_checkpointed_after_abandon(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.answers["JobGenerator.stop"] = lambda *_arguments: engine.abandon()
    engine.stop(time.monotonic() + 1)
    assert parts.calls_of("FinalStateCheckpoint.write") == []
    steps = "JobGenerator.abandon", "JobScheduler.abandon"
    assert parts.calls_of(*steps) == list(steps)


def test_blocks_released_by_checkpoints_are_cleaned_up_by_the_generator(engine: Engine, parts: Parts) -> None:
    engine.start({})
    release_blocks = parts.made_with["Checkpointer"][-1]
    release_blocks(300, [])
    assert parts.calls_of("JobGenerator.release_blocks") == ["JobGenerator.release_blocks"]
