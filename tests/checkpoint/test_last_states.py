"""``LastStates``: under the deadline of the stop, and nobody waits for it after a second request."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.checkpoint.final_states import LastStates


class Spark:
    """Knows job groups; a job in one that is cancelled fails."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.group = ""

    def setJobGroup(self, group: str, _description: str) -> None:
        self.group = group

    def cancelJobGroup(self, group: str) -> None:
        assert group == self.group
        self.cancelled.set()


class Table:
    """Notes that it was checkpointed."""

    def __init__(self, spark: Spark, *, fails: bool = False, hangs: bool = False) -> None:
        self._spark, self._fails, self._hangs = spark, fails, hangs
        self.call_site = SimpleNamespace(short="updateStateByKey at app.py:3")
        self.begun, self.done = threading.Event(), False

    def checkpoint_youngest(self) -> None:
        self.begun.set()
        if self._hangs:
            assert self._spark.cancelled.wait(30)
        if self._fails or self._hangs:
            raise RuntimeError("the job was cancelled")
        self.done = True


@pytest.fixture
def spark() -> Spark:
    return Spark()


def last_states(spark: Spark, *tables: Table) -> LastStates:
    made = LastStates(cast(Any, spark), cast(Any, tables))
    made.start()
    return made


def test_all_are_written_though_one_fails(spark: Spark, caplog: pytest.LogCaptureFixture) -> None:
    first, second = Table(spark, fails=True), Table(spark)
    last_states(spark, first, second).write(time.monotonic() + 30)
    assert second.done
    assert "updateStateByKey at app.py:3" in caplog.text
    assert not spark.cancelled.is_set()


def test_at_the_deadline_the_job_is_cancelled_and_no_further_one_begun(
    spark: Spark, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Table(spark, hangs=True), Table(spark)
    states = last_states(spark, first, second)
    states.write(time.monotonic() + 0.05)
    assert spark.cancelled.is_set()
    assert "not checkpointed in time" in caplog.text
    states._thread.join(30)
    assert first.begun.is_set()
    assert not second.begun.is_set()


def test_nobody_waits_when_it_is_abandoned(spark: Spark) -> None:
    first, second = Table(spark, hangs=True), Table(spark)
    states = last_states(spark, first, second)
    writing = threading.Thread(target=states.write, args=(time.monotonic() + 600,))
    writing.start()
    assert first.begun.wait(30)
    states.abandon()
    writing.join(30)
    assert not writing.is_alive()
    assert spark.cancelled.is_set()
    states._thread.join(30)
    assert not second.begun.is_set()


def test_an_interpreter_that_ends_needs_no_further_thread(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(spark)
    states = last_states(spark, table)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    states.write(time.monotonic() + 30)
    assert table.done


def test_what_is_abandoned_before_it_begins_is_not_begun(spark: Spark) -> None:
    table = Table(spark)
    states = last_states(spark, table)
    states.abandon()
    states._thread.join(30)
    assert not states._thread.is_alive()
    assert not table.begun.is_set()


def test_without_states_there_is_nothing_to_wait_for(spark: Spark, caplog: pytest.LogCaptureFixture) -> None:
    states = last_states(spark)
    states.write(time.monotonic())
    states.abandon()
    assert not caplog.records
    assert not states._thread.ident
