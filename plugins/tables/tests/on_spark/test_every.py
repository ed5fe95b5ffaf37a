"""``every=``: a window of batches is in the table once, also when a stop or a recovery falls into it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from plugins.tables.tests.kind_of_table import Kind, ordered
from pyspark import SparkContext
from tests.helpers import do_nothing
from tests.helpers.own_conf import own_conf
from tests.helpers.runs import Runs, numbered

from penstock import StreamingContext
from penstock_tables import to_files

pytestmark = pytest.mark.spark

WINDOW = 3


@pytest.fixture
def runs(sc: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    shared = dict(sc.getConf().getAll())

    def configure(**values: str) -> None:
        monkeypatch.setattr(sc, "_conf", own_conf([*shared.items(), *values.items()]))

    made = Runs(sc, tmp_path / "checkpoints", configure)
    yield made
    made.stop()


def build(folder: str, context: StreamingContext) -> None:
    records = numbered(context, lambda number: [(number, n) for n in range(2)])
    to_files(records, folder, schema="batch BIGINT, n BIGINT", every=WINDOW)
    # So that each batch has a job, and an event at its end.
    records.foreachRDD(do_nothing)


def of_batches(last: int) -> list[dict[str, int]]:
    return ordered({"batch": number, "n": n} for number in range(1, last + 1) for n in range(2))


def test_a_window_is_written_once_whatever_interrupts_it(runs: Runs, tmp_path: Path) -> None:
    kind = Kind("files", tmp_path)
    program = partial(build, str(tmp_path / "files"))
    first = runs.new(program).start()
    first.batches(WINDOW + 1)
    assert kind.rows() == of_batches(WINDOW)
    # As if it were killed in the second window.
    left = runs.interrupt()
    first.batches(WINDOW - 1)
    assert kind.rows() == of_batches(2 * WINDOW)
    first.stop()
    recovered = runs.new(program, left).start()
    recovered.completed.await_time(2 * WINDOW * 1000)
    recovered.batches(WINDOW + 1)
    assert kind.rows() == of_batches(3 * WINDOW)
    # Stops in the fourth window.
    recovered.stop_gracefully()
    last = runs.new(program, left).start()
    last.batches(WINDOW)
    # The stop let the clock tick once or twice.
    newest = max(last.completed.times) // 1000
    assert newest >= 4 * WINDOW
    assert kind.rows() == of_batches(newest // WINDOW * WINDOW)
