"""``Engine``: in which order its parts are started and stopped. The parts only note what they are asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock import engine as engine_module
from penstock.conf import Settings
from penstock.engine import Engine
from penstock.errors import ConfigurationError
from penstock.graph.dstream_graph import DStreamGraph
from penstock.listen.events import CheckpointFailed, Event
from penstock.runtime.clock import ManualClock


class Part:
    """Notes each call of a method, and answers as the test says, else nothing."""

    def __init__(self, name: str, parts: Parts) -> None:
        self._name, self._parts = name, parts

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            name = f"{self._name}.{method}"
            self._parts.asked.append(name)
            answer = self._parts.answers.get(name)
            return None if answer is None else answer(*arguments, **options)

        return called


def _nothing(*_arguments: Any, **_options: Any) -> None:
    return None


class Parts:
    """The parts of an engine, and what they were asked for, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Callable[..., Any]] = {}
        self.events: list[Event] = []
        made = {
            name: self.part(name)
            for name in ("ReceiverTracker", "JobScheduler", "JobGenerator", "FinalStateCheckpoint", "LocalProperties")
        }
        for name, part in made.items():
            monkeypatch.setattr(engine_module, name, lambda *_arguments, part=part, **_options: part)
        made["ReceiverTracker"].__dict__["blocks"] = self.part("blocks")
        self.scheduler = made["JobScheduler"].__dict__
        self.scheduler["pending_batches"] = []
        self.answers["Recovery.checkpointer"] = lambda *_arguments, **_options: self.part("Checkpointer")
        self.answers["JobGenerator.stop"] = self.answers["Checkpointer.stop"] = lambda *_arguments: True

    def part(self, name: str) -> Part:
        return Part(name, self)

    def fail(self, name: str, error: Exception) -> None:
        def fails(*_arguments: Any, **_options: Any) -> None:
            raise error

        self.answers[name] = fails

    def among(self, *names: str) -> list[str]:
        """Those of the calls that have one of these names."""
        return [name for name in self.asked if name in names]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    return Parts(monkeypatch)


@pytest.fixture
def engine(parts: Parts) -> Engine:
    bus, recovery = parts.part("ListenerBus"), parts.part("Recovery")
    parts.answers["ListenerBus.post"] = parts.events.append
    recovery.__dict__.update(rates={}, attempts=None, resume=None)
    return Engine(
        cast(Any, None),
        Settings({}),
        ManualClock(5000),
        DStreamGraph(100),
        cast(Any, bus),
        cast(Any, recovery),
        _nothing,
        _nothing,
    )


def test_a_start_that_is_refused_has_not_touched_what_an_earlier_run_left(engine: Engine, parts: Parts) -> None:
    parts.fail("ReceiverTracker.prepare", ConfigurationError("too few cores"))
    with pytest.raises(ConfigurationError, match="too few cores"):
        engine.start({})
    assert parts.among("Recovery.checkpointer", "ReceiverTracker.start") == []


def test_what_an_earlier_run_left_is_replaced_before_anything_is_received(engine: Engine, parts: Parts) -> None:
    engine.start({})
    steps = "ReceiverTracker.prepare", "Recovery.checkpointer", "ReceiverTracker.start", "JobGenerator.start"
    assert parts.among(*steps) == list(steps)


def test_what_a_graceful_stop_has_left_is_counted(
    engine: Engine, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    engine.start({})
    parts.answers["JobGenerator.stop"] = lambda *_arguments: False
    parts.answers["blocks.unallocated_records"] = lambda: {0: 900}
    parts.scheduler["pending_batches"] = [100, 200]
    engine.stop(time.monotonic() + 1)
    (told,) = [each.getMessage() for each in caplog.records if "stopped before" in each.getMessage()]
    assert "batches_left=2" in told
    assert "records_left={0: 900}" in told


def test_what_fails_behind_a_stop_at_once_is_not_complete(engine: Engine, parts: Parts) -> None:
    engine.start({})
    engine.stop(None)
    steps = "JobScheduler.abandon", "ReceiverTracker.stop", "JobGenerator.stop", "JobScheduler.stop"
    assert parts.among(*steps) == list(steps)


def test_a_graceful_stop_gives_up_no_batch_before_its_deadline(engine: Engine, parts: Parts) -> None:
    engine.start({})
    engine.stop(time.monotonic() + 1)
    assert parts.among("JobScheduler.abandon") == []


def test_what_writes_the_last_states_is_there_from_the_start_and_ends_with_any_stop(
    engine: Engine, parts: Parts
) -> None:
    engine.start({})
    assert parts.among("FinalStateCheckpoint.start") == ["FinalStateCheckpoint.start"]
    engine.stop(None)
    assert parts.among("FinalStateCheckpoint.abandon", "FinalStateCheckpoint.write") == ["FinalStateCheckpoint.abandon"]


def test_the_journal_is_closed_behind_all_that_may_write_to_it(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.asked.clear()
    engine.stop(time.monotonic() + 1)
    steps = [
        "ReceiverTracker.stop",
        "JobGenerator.stop",
        "JobScheduler.stop",
        "FinalStateCheckpoint.write",
        "JobGenerator.save",
        "Checkpointer.stop",
        "ReceiverTracker.release",
        "ReceiverTracker.delete_files",
        "ReceiverTracker.close",
        "ListenerBus.stop",
    ]
    assert parts.among(*steps) == steps


def test_a_step_that_fails_keeps_none_behind_it_from_its_turn(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.fail("ReceiverTracker.stop", OSError("the network is down"))
    parts.fail("JobGenerator.save", OSError("the disk is full"))
    engine.stop(None)
    assert parts.among("JobGenerator.stop", "ReceiverTracker.close") == ["JobGenerator.stop", "ReceiverTracker.close"]


def test_states_are_not_written_where_batches_are_left(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.scheduler["pending_batches"] = [100]
    engine.stop(time.monotonic() + 1)
    assert parts.among("FinalStateCheckpoint.write", "JobGenerator.save") == ["JobGenerator.save"]


def test_nobody_waits_for_states_when_a_graceful_stop_is_abandoned(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.answers["FinalStateCheckpoint.write"] = lambda _end: engine.abandon()
    engine.stop(time.monotonic() + 1)
    assert parts.among("FinalStateCheckpoint.write", "FinalStateCheckpoint.abandon") == ["FinalStateCheckpoint.write", "FinalStateCheckpoint.abandon"]


def test_no_states_are_written_behind_an_abandoned_stop(engine: Engine, parts: Parts) -> None:
    engine.start({})
    parts.answers["JobGenerator.stop"] = lambda *_arguments: engine.abandon()
    engine.stop(time.monotonic() + 1)
    assert parts.among("FinalStateCheckpoint.write") == []
    steps = "JobGenerator.abandon", "JobScheduler.abandon"
    assert parts.among(*steps) == list(steps)


def test_listeners_are_told_of_checkpoints_that_cannot_be_written(engine: Engine, parts: Parts) -> None:
    given: list[Callable[[int, BaseException], object]] = []

    def checkpointer(_rates: object, _kept: object, on_failures: Any, *_rest: object, **_options: object) -> Part:
        given.append(on_failures)
        return parts.part("Checkpointer")

    parts.answers["Recovery.checkpointer"] = checkpointer
    engine.start({})
    given[0](3, OSError("the disk is full"))
    assert parts.events == [CheckpointFailed(5000, 3, "OSError: the disk is full")]
