"""File streams of interrupted and recovered runs: each file is in exactly one batch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.helpers.runs import Hold, Output, Runs

from penstock import StreamingContext

pytestmark = pytest.mark.spark


def test_each_file_is_in_one_batch_although_the_directory_was_moved(runs: Runs, tmp_path: Path, output: Output) -> None:
    incoming, hold = tmp_path / "incoming", Hold(tmp_path / "hold")
    incoming.mkdir()

    def put(name: str) -> None:
        path = incoming / name
        path.write_text(f"{name}\n")
        now_s = runs.clock.now_ms() / 1000
        os.utime(path, (now_s, now_s))

    def build(context: StreamingContext) -> None:
        stream = context.textFileStream(str(incoming))
        output.collect(stream)
        stream.foreachRDD(hold)

    run = runs.new(build).start()
    put("first")
    run.batches(2)
    put("second")
    # The batch is pending; a recovered run has to read the same files for it.
    left = runs.interrupt_at(hold)
    run.stop()
    pending_ms = runs.clock.now_ms()
    assert output.written[-1] == (pending_ms, ["second"])
    runs.clock.advance(2000)
    put("while down")
    runs.directory.rename(tmp_path / "elsewhere")
    left = left.rename(tmp_path / "moved")
    again = runs.new(build, left).start()
    again.batches(1)
    put("third")
    again.batches(2)
    assert runs.created == 1
    seen: dict[str, set[int]] = {}
    for time_ms, names in output.written:
        for name in names:
            seen.setdefault(name, set()).add(time_ms)
    assert sorted(seen) == ["first", "second", "third", "while down"]
    assert all(len(times) == 1 for times in seen.values()), seen
    assert output.written.count((pending_ms, ["second"])) == 2
