"""Batches whose output failed run again after a restart, with their data, windows and states; later ones are right."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from pyspark import RDD
from tests.checkpoint.runs.test_states import OPERATIONS, build_all, check
from tests.helpers import wait_for
from tests.helpers.runs import INTERVAL_MS, Output, Run, Runs, Write

from penstock import DStream, StreamingContext, ThreadReceiver
from penstock.checkpoint.restore.recovery import find_newest
from penstock.schedule import job_scheduler
from penstock_testing import ManualClock

pytestmark = pytest.mark.spark


@frozen
class FlakyWrite:
    """An output that fails while a file exists."""

    path: Path
    broken: Path

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        if self.broken.exists():
            raise ConnectionError("the sink is down")
        Write(self.path)(time, rdd)


class FlakyOutput(Output):
    """Outputs that fail while the sink is broken."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "output")
        self._folder = folder
        self._broken = folder / "broken"

    def collect(self, stream: DStream[Any]) -> None:
        stream.foreachRDD(FlakyWrite(self._folder / "output", self._broken))

    def set_broken(self, broken: bool) -> None:
        if broken:
            self._broken.touch()
        else:
            self._broken.unlink()


@pytest.fixture
def flaky(tmp_path: Path) -> FlakyOutput:
    return FlakyOutput(tmp_path)


def pending(directory: Path) -> list[int]:
    newest = find_newest(str(directory))
    assert newest is not None
    assert {*newest.failed} <= newest.pending.keys()
    return [time_ms // INTERVAL_MS for time_ms in newest.pending]


def test_failed_batches_run_again_with_their_states_and_windows(runs: Runs, flaky: FlakyOutput) -> None:
    build = build_all(flaky, [operation for operation, _after in OPERATIONS])
    first = runs.new(build).start()
    first.batches(2)
    flaky.set_broken(True)
    first.batches(1)
    flaky.set_broken(False)
    first.batches(10)
    flaky.set_broken(True)
    first.batches(1)
    flaky.set_broken(False)
    first.batches(1)
    killed = runs.interrupt(), runs.clock.now_ms()
    first.stop_gracefully()
    stopped = runs.directory, runs.clock.now_ms()
    assert 3 not in flaky.batches
    check(flaky, OPERATIONS, range(4, 14))
    for left, ended_ms in (killed, stopped):
        assert {3, 14} <= set(pending(left)) <= {3, 14, 15}
        flaky.forget()
        runs.clock = ManualClock(ended_ms)
        second = runs.new(build, left).start()
        second.batches(2)
        second.stop()
        last = ended_ms // INTERVAL_MS
        # Neither repeats the batches between.
        assert {3, 14} <= flaky.batches.keys() <= {3, *range(14, last + 3)}
        check(flaky, OPERATIONS, range(3, 4))
        check(flaky, OPERATIONS, range(14, 15))
        check(flaky, OPERATIONS, range(last + 1, last + 3))


def test_failed_batch_of_files_runs_again_with_its_files(runs: Runs, flaky: FlakyOutput, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()

    def build(context: StreamingContext) -> None:
        flaky.collect(context.textFileStream(str(incoming)))

    def batch(run: Run, number: int) -> None:
        (incoming / ".new").write_text(f"{number}\n")
        (incoming / ".new").rename(incoming / str(number))
        run.batches(1)

    run = runs.new(build).start()
    batch(run, 1)
    flaky.set_broken(True)
    batch(run, 2)
    flaky.set_broken(False)
    for number in range(3, 12):
        batch(run, number)
    left = runs.interrupt()
    run.stop()
    assert flaky.batches == {number: [str(number)] for number in range(1, 12) if number != 2}
    recovered = runs.new(build, left).start()
    batch(recovered, 12)
    assert flaky.batches == {number: [str(number)] for number in range(1, 13)}


def test_batch_that_fails_in_two_runs_is_recovered_by_the_third(runs: Runs, flaky: FlakyOutput) -> None:
    build = build_all(flaky, [operation for operation, _after in OPERATIONS[:4]])
    first = runs.new(build).start()
    flaky.set_broken(True)
    first.batches(3)
    flaky.set_broken(False)
    first.batches(8)
    left = runs.interrupt("second")
    first.stop()
    flaky.set_broken(True)
    second = runs.new(build, left).start()
    second.batches(1)
    flaky.set_broken(False)
    second.batches(6)
    left = runs.interrupt("third")
    second.stop()
    check(flaky, OPERATIONS[:4], range(13, 19))
    flaky.forget()
    third = runs.new(build, left).start()
    third.batches(1)
    check(flaky, OPERATIONS[:4], range(1, 4))
    check(flaky, OPERATIONS[:4], range(12, 13))
    check(flaky, OPERATIONS[:4], range(19, 20))


def test_failed_batch_runs_again_in_this_run_and_changes_no_state(
    runs: Runs, flaky: FlakyOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_scheduler, "_FIRST_DELAY_MS", 100.0)
    monkeypatch.setattr(job_scheduler, "_LONGEST_DELAY_MS", 200.0)
    runs.configure(onFailedBatch="retry")
    build = build_all(flaky, [operation for operation, _after in OPERATIONS])
    first = runs.new(build).start()
    first.batches(2)
    flaky.set_broken(True)
    first.batches(12)
    flaky.set_broken(False)
    first.batches(2)
    # The batches run again one after the other, oldest first unless it has had more attempts.
    wait_for(lambda: {*range(1, 17)} <= flaky.batches.keys(), "every batch")
    first.batches(1)
    check(flaky, OPERATIONS, range(1, 18))
    first.stop()


class Counting(ThreadReceiver[int]):
    """Stores consecutive numbers reliably; writes down how many were accepted."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def receive(self) -> None:
        number = self.accepted()
        while not self.isStopped():
            self.store_all(range(number, number + 10))
            number += 10
            with self._notes.open("a") as notes:
                notes.write(".")
            self.wait(0.02)

    def await_accepted(self, count: int) -> None:
        wait_for(lambda: self.accepted() >= count, f"{count} records")

    def accepted(self) -> int:
        return 10 * self._notes.stat().st_size if self._notes.exists() else 0


def test_every_accepted_record_reaches_the_output_although_the_sink_was_down(
    runs: Runs, flaky: FlakyOutput, tmp_path: Path
) -> None:
    runs.configure(**{"spark.streaming.receiver.writeAheadLog.enable": "true"})
    receiver = Counting(tmp_path / "accepted")

    def build(context: StreamingContext) -> None:
        flaky.collect(context.receiverStream(receiver))

    first = runs.new(build).start()
    receiver.await_accepted(50)
    first.batches(1)
    for _ in range(3):
        flaky.set_broken(True)
        receiver.await_accepted(receiver.accepted() + 50)
        first.batches(1)
        flaky.set_broken(False)
        # More than the retained checkpoints: their blocks are deleted meanwhile.
        first.batches(12)
    first.stop()
    accepted = receiver.accepted()
    second = runs.new(build).start()
    second.batches(2)
    second.stop()
    written = [record for _time_ms, records in flaky.written for record in records]
    assert accepted >= 200
    assert {*range(accepted)} <= {*written}
