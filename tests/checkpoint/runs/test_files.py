"""File streams of interrupted and recovered runs: each file is in exactly one batch."""

from __future__ import annotations

import operator
import os
from pathlib import Path

import pytest
from attrs import frozen
from tests.helpers.runs import INTERVAL_MS, Hold, Output, Runs

from penstock import StreamingContext

pytestmark = pytest.mark.spark


@frozen
class Incoming:
    """A directory whose files are modified by the manual clock."""

    path: Path
    runs: Runs

    def put(self, name: str) -> None:
        path = self.path / name
        path.write_text(f"{name}\n")
        now_s = self.runs.clock.now_ms() / 1000
        os.utime(path, (now_s, now_s))


@pytest.fixture
def incoming(runs: Runs, tmp_path: Path) -> Incoming:
    (tmp_path / "incoming").mkdir()
    return Incoming(tmp_path / "incoming", runs)


def test_files_of_the_downtime_go_to_the_batches_of_their_intervals(
    runs: Runs, incoming: Incoming, output: Output
) -> None:
    """The numbers of Spark's CheckpointSuite."""

    def build(context: StreamingContext) -> None:
        lines = context.textFileStream(str(incoming.path))
        output.collect(lines.map(int).reduceByWindow(operator.add, None, 30, 1))

    run = runs.new(build).start()
    for number in (1, 2, 3):
        incoming.put(str(number))
        run.batches(1)
    left = runs.interrupt()
    run.stop()
    for number in (4, 5, 6):
        runs.clock.advance(INTERVAL_MS // 2)
        incoming.put(str(number))
        runs.clock.advance(INTERVAL_MS // 2)
    again = runs.new(build, left).start()
    again.completed.await_time(6 * INTERVAL_MS)
    for number in (7, 8, 9):
        incoming.put(str(number))
        again.batches(1)
    assert output.batches == {n + 1: [total] for n, total in enumerate((1, 3, 6, 10, 15, 21, 28, 36, 45))}


def test_each_file_is_in_one_batch_although_the_directory_was_moved(
    runs: Runs, incoming: Incoming, tmp_path: Path, output: Output
) -> None:
    hold = Hold(tmp_path / "hold")

    def build(context: StreamingContext) -> None:
        stream = context.textFileStream(str(incoming.path))
        output.collect(stream)
        stream.foreachRDD(hold)

    run = runs.new(build).start()
    incoming.put("first")
    run.batches(2)
    incoming.put("second")
    # The batch is pending; a recovered run has to read the same files for it.
    left = runs.interrupt_at(hold)
    run.stop()
    pending_ms = runs.clock.now_ms()
    assert output.written[-1] == (pending_ms, ["second"])
    runs.clock.advance(2000)
    incoming.put("while down")
    runs.directory.rename(tmp_path / "elsewhere")
    left = left.rename(tmp_path / "moved")
    again = runs.new(build, left).start()
    again.batches(1)
    incoming.put("third")
    again.batches(2)
    assert runs.created == 1
    seen: dict[str, set[int]] = {}
    for time_ms, names in output.written:
        for name in names:
            seen.setdefault(name, set()).add(time_ms)
    assert sorted(seen) == ["first", "second", "third", "while down"]
    assert all(len(times) == 1 for times in seen.values()), seen
    assert output.written.count((pending_ms, ["second"])) == 2
