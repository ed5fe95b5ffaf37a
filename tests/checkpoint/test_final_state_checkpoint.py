"""``FinalStateCheckpoint``: bounded by the deadline of the stop, and abandoned by a second stop request."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.checkpoint.checkpointer import FinalStateCheckpoint


class Spark:
    """Job groups whose jobs fail when the group is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.group = ""

    def setJobGroup(self, group: str, _description: str) -> None:
        self.group = group

    def cancelJobGroup(self, group: str) -> None:
        assert group == self.group
        self.cancelled.set()


class FakeStream:
    """A stateful stream that records whether it was checkpointed."""

    def __init__(self, spark: Spark, *, fails: bool = False, hangs: bool = False) -> None:
        self._spark = spark
        self._fails = fails
        self._hangs = hangs
        self.call_site = SimpleNamespace(short="updateStateByKey at app.py:3")
        self.begun = threading.Event()
        self.done = False

    def checkpoint_newest(self) -> None:
        self.begun.set()
        if self._hangs:
            assert self._spark.cancelled.wait(30)
        if self._fails or self._hangs:
            raise RuntimeError("the job was cancelled")
        self.done = True


@pytest.fixture
def spark() -> Spark:
    return Spark()


def started(spark: Spark, *streams: FakeStream) -> FinalStateCheckpoint:
    made = FinalStateCheckpoint(cast(Any, spark), cast(Any, streams))
    made.start()
    return made


def thread_of(states: FinalStateCheckpoint) -> threading.Thread:
    return states._thread  # no public name: only the end of the engine would wait for it


def test_every_state_is_checkpointed_even_if_one_fails(spark: Spark, caplog: pytest.LogCaptureFixture) -> None:
    first, second = FakeStream(spark, fails=True), FakeStream(spark)
    started(spark, first, second).write(time.monotonic() + 30)
    assert second.done
    assert "updateStateByKey at app.py:3" in caplog.text
    assert not spark.cancelled.is_set()


def test_deadline_cancels_the_job_and_starts_no_further_one(spark: Spark, caplog: pytest.LogCaptureFixture) -> None:
    first, second = FakeStream(spark, hangs=True), FakeStream(spark)
    states = started(spark, first, second)
    states.write(time.monotonic() + 0.05)
    assert spark.cancelled.is_set()
    assert "not checkpointed before the deadline" in caplog.text
    thread_of(states).join(30)
    assert first.begun.is_set()
    assert not second.begun.is_set()


def test_abandon_ends_the_wait_and_cancels_the_job(spark: Spark) -> None:
    first, second = FakeStream(spark, hangs=True), FakeStream(spark)
    states = started(spark, first, second)
    writing = threading.Thread(target=states.write, args=(time.monotonic() + 600,))
    writing.start()
    assert first.begun.wait(30)
    states.abandon()
    writing.join(30)
    assert not writing.is_alive()
    assert spark.cancelled.is_set()
    thread_of(states).join(30)
    assert not second.begun.is_set()


def test_write_starts_no_thread(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = FakeStream(spark)
    states = started(spark, stream)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    states.write(time.monotonic() + 30)
    assert stream.done


def test_abandon_before_write_checkpoints_nothing(spark: Spark) -> None:
    stream = FakeStream(spark)
    states = started(spark, stream)
    states.abandon()
    thread_of(states).join(30)
    assert not thread_of(states).is_alive()
    assert not stream.begun.is_set()


def test_write_returns_at_once_without_states(spark: Spark, caplog: pytest.LogCaptureFixture) -> None:
    states = started(spark)
    states.write(time.monotonic())
    states.abandon()
    assert not caplog.records
    assert not thread_of(states).ident
