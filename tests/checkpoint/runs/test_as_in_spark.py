"""Programs that Spark accepts: state with ``sc.setCheckpointDir`` alone, and queues beside a checkpoint directory."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from tests.helpers.runs import INTERVAL_MS, Output, Run, Runs

from penstock import DStream, StateSpec, StreamingContext
from penstock.checkpoint import checkpoint_directory as directory_module
from penstock.errors import CheckpointError, ConfigurationError
from penstock_testing import ManualClock

pytestmark = pytest.mark.spark

PAIRS = [[("a", number), ("b", 1)] for number in range(1, 13)]


def total(new: list[int], old: int | None) -> int:
    return sum(new) + (old or 0)


def mapped_total(_key: str, value: int | None, state: Any) -> int:
    state.update((value or 0) + (state.get() if state.exists() else 0))
    result: int = state.get()
    return result


class StatefulRun(Run):
    """A run without a checkpoint directory of its own."""

    def __init__(self, sc: SparkContext) -> None:
        self.clock = ManualClock(0)
        super().__init__(StreamingContext(sc, INTERVAL_MS / 1000, clock=self.clock), self.clock)

    def pairs(self) -> DStream[Any]:
        return self.context.queueStream(PAIRS)


@pytest.fixture
def stateful(sc: SparkContext) -> Iterator[StatefulRun]:
    run = StatefulRun(sc)
    yield run
    run.stop()


def test_state_and_windows_need_only_the_checkpoint_directory_of_the_spark_context(
    stateful: StatefulRun, sc: SparkContext, tmp_path: Path, output: Output
) -> None:
    sc.setCheckpointDir(str(tmp_path / "rdds"))
    pairs = stateful.pairs()
    sums = pairs.updateStateByKey(total, 1).map(lambda pair: ["sum", *pair])
    mapped = pairs.mapWithState(StateSpec.function(mapped_total)).map(lambda value: ["mapped", value])
    window = pairs.reduceByKeyAndWindow(operator.add, operator.sub, 6, 1, 1).map(lambda pair: ["window", *pair])
    output.collect(sums.union(mapped).union(window))
    stateful.start()
    stateful.batches(12)
    assert output.batches[12] == sorted(
        [["sum", "a", 78], ["sum", "b", 12], ["mapped", 78], ["mapped", 12], ["window", "a", 57], ["window", "b", 6]]
    )
    # RDD checkpoints only: there is nothing to recover from.
    assert not list(tmp_path.rglob("checkpoint-*"))
    assert list(tmp_path.rglob("rdd-*"))


def test_state_without_any_checkpoint_directory_is_refused(
    stateful: StatefulRun, monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    # The SparkContext of the tests may have one from an earlier test.
    monkeypatch.setattr(directory_module, "checkpoint_folder", lambda _sc: None)
    output.collect(stateful.pairs().updateStateByKey(total))
    with pytest.raises(ConfigurationError, match="The checkpoint directory has not been set"):
        stateful.start()


def build_sums(context: StreamingContext, output: Output) -> None:
    sc = context.sparkContext
    queue = [sc.parallelize(pairs, 1) for pairs in PAIRS[:4]]
    stream = context.queueStream(queue, default=sc.parallelize([("c", 1)], 1))
    output.collect(stream.updateStateByKey(total, 1))


def test_program_with_a_queue_recovers_only_when_it_is_rebuilt(
    runs: Runs, output: Output, caplog: pytest.LogCaptureFixture
) -> None:
    run = runs.new(lambda context: build_sums(context, output)).start()
    run.batches(3)
    left = runs.interrupt()
    run.stop()
    assert output.batches[3] == [["a", 6], ["b", 3]]
    (warning,) = [
        record.getMessage() for record in caplog.records if "queueStream not recoverable" in record.getMessage()
    ]
    assert "queueStream at test_as_in_spark.py" in warning
    with pytest.raises(CheckpointError, match=r"queueStream at test_as_in_spark\.py:\d+\. .*checkpoint.rebuild=true"):
        runs.new(lambda context: build_sums(context, output), left)
    assert runs.created == 1
    runs.configure(checkpoint_rebuild="true")
    run = runs.new(lambda context: build_sums(context, output), left).start()
    run.batches(1)
    # No state was checkpointed yet, so it is recomputed from the refilled queue.
    assert output.batches[4] == [["a", 10], ["b", 4]]
