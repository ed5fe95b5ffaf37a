"""Windows and state of programs whose wall clock is set."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.runs import INTERVAL_MS, Output, Runs, numbered

from penstock import StreamingContext

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def total(new: list[int], old: int | None) -> int:
    return sum(new) + (old or 0)


def build(context: StreamingContext, incoming: Path, output: Output) -> None:
    numbers = context.textFileStream(str(incoming)).map(lambda line: ("n", int(line)))
    sums = numbers.updateStateByKey(total, 1).map(lambda pair: ["sum", pair[1]])
    inverse = numbers.reduceByKeyAndWindow(operator.add, operator.sub, 6, 1, 1).map(lambda pair: ["inverse", pair[1]])
    tree = numbers.reduceByKeyAndWindow(operator.add, None, 6, 1, 1).map(lambda pair: ["tree", pair[1]])
    output.collect(sums.union(inverse).union(tree))


class Numbers:
    """A program that gets the next number in each batch."""

    def __init__(self, runs: Runs, folder: Path, output: Output) -> None:
        self._runs = runs
        self._incoming = folder / "incoming"
        self._incoming.mkdir()
        self._output = output
        self._count = 0
        self.run = self.recover(None)

    def recover(self, directory: Path | None) -> Any:
        self.run = self._runs.new(lambda context: build(context, self._incoming, self._output), directory).start()
        return self.run

    def batches(self, count: int) -> list[int]:
        """Run some batches, and return the times of those that were written meanwhile, ms."""
        before = len(self._output.written)
        for _ in range(count):
            self._count += 1
            (self._incoming / str(self._count)).write_text(f"{self._count}\n")
            generated = len(self.run.completed.times)
            self._runs.clock.await_waiters()
            self._runs.clock.advance(INTERVAL_MS)
            self.run.completed.await_count(generated + 1)
        return [time_ms for time_ms, _records in self._output.written[before:]]

    @property
    def last(self) -> list[list[Any]]:
        """The records of the last batch."""
        return self._output.written[-1][1]


@pytest.fixture
def numbers(runs: Runs, tmp_path: Path, output: Output) -> Numbers:
    return Numbers(runs, tmp_path, output)


def test_after_a_step_forward_state_continues_and_windows_cover_the_new_time(numbers: Numbers, runs: Runs) -> None:
    assert numbers.batches(3) == [1000, 2000, 3000]
    runs.clock.step(DAY_MS)
    assert numbers.batches(2) == [DAY_MS + 4000, DAY_MS + 5000]
    assert numbers.last == [["inverse", 9], ["sum", 15], ["tree", 9]]
    # A window that the step only shortens.
    runs.clock.step(2000)
    assert numbers.batches(1) == [DAY_MS + 8000]
    assert numbers.last == [["inverse", 15], ["sum", 21], ["tree", 15]]


def counted(new: list[int], old: tuple[int, int] | None) -> tuple[int, int]:
    """How often the state was computed, and its sum."""
    calls, value = old or (0, 0)
    return calls + 1, value + sum(new)


def test_recovery_after_a_step_forward_computes_no_state_for_the_skipped_times(
    runs: Runs, tmp_path: Path, output: Output
) -> None:
    def build(context: StreamingContext) -> None:
        ones = numbered(context, lambda _batch: [1]).map(lambda one: ("n", one))
        output.collect(ones.updateStateByKey(counted, 1))

    run = runs.new(build).start()
    run.batches(3)
    runs.clock.step(HOUR_MS)
    run.batches(2)
    left = runs.interrupt()
    run.stop()
    recovered = runs.new(build, left).start()
    recovered.batches(1)
    left = runs.interrupt("again")
    recovered.stop()
    runs.new(build, left).start().batches(1)
    assert output.written[-1] == (HOUR_MS + 7000, [["n", [7, 7]]])


def test_after_a_step_back_state_and_windows_continue(numbers: Numbers, runs: Runs) -> None:
    numbers.batches(3)
    runs.clock.step(-HOUR_MS)
    assert numbers.batches(4) == [4000, 5000, 6000, 7000]
    assert numbers.last == [["inverse", 27], ["sum", 28], ["tree", 27]]
