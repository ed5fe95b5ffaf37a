"""Retries of inputs, which use the same time and the same items; without Spark."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock import StreamingContext
from penstock.errors import BatchFailedError, StreamingStateError
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import GraphRuntime
from penstock.graph.input_dstreams import PulledInputDStream, QueueInputDStream
from penstock.plugins.specs import SourceBatch

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext


class Source:
    """Gives each batch its time as its record; fails ``failures`` times."""

    def __init__(self, context: FakeContext) -> None:
        self._sc = context.sparkContext
        self.asked: list[int] = []
        self.cleaned_up: list[int] = []
        self.failures = 0

    def open(self, sc: Any, batch_interval_ms: int) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def clean_up(self, before_ms: int) -> None:
        self.cleaned_up.append(before_ms)

    def compute(self, batch_time_ms: int) -> SourceBatch:
        self.asked.append(batch_time_ms)
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError(f"no answer at {batch_time_ms}")
        return SourceBatch(self._sc.parallelize([batch_time_ms]), 1)


@pytest.fixture
def source(context: FakeContext) -> Source:
    return Source(context)


@pytest.fixture
def pulled(context: FakeContext, source: Source) -> PulledInputDStream:
    stream = PulledInputDStream(context.graph, lambda: source)
    stream.initialize(0)
    return stream


def records(stream: Any, time_ms: int) -> list[Any]:
    elements: list[Any] = stream.get_or_compute(time_ms).collect()
    return elements


def test_failed_source_is_called_again_for_the_same_time(pulled: PulledInputDStream, source: Source) -> None:
    source.failures = 2
    for _ in range(2):
        with pytest.raises(ConnectionError):
            pulled.get_or_compute(100)
    assert records(pulled, 100) == [100]
    assert records(pulled, 100) == [100]
    assert source.asked == [100, 100, 100]


def test_position_waits_for_a_batch_in_progress(context: FakeContext) -> None:
    # A retry runs on a job's thread: a position taken meanwhile would lose the records that it reads.
    said: list[str] = []
    where = ["before"]

    class Moving(Source):
        def position(self) -> Any:
            said.append(where[0])

        def restore(self, position: Any) -> None: ...

        def compute_again(self, batch_time_ms: int) -> SourceBatch | None: ...

        def compute(self, batch_time_ms: int) -> SourceBatch:
            where[0] = "in between"
            asking.start()
            asking.join(0.1)
            where[0] = "after"
            return super().compute(batch_time_ms)

    stream = PulledInputDStream(context.graph, lambda: Moving(context))
    stream.initialize(0)
    asking = threading.Thread(target=stream.position)
    with context.graph.lock:
        stream.get_or_compute(100)
    asking.join(30)
    assert said == ["after"]


def test_failed_source_is_not_called_for_a_time_before_its_last(pulled: PulledInputDStream, source: Source) -> None:
    source.failures = 1
    with pytest.raises(ConnectionError):
        pulled.get_or_compute(100)
    assert records(pulled, 200) == [200]
    with pytest.raises(
        StreamingStateError, match=r"failed at 1970-01-01T00:00:00\.100Z and has computed the batch of .*\.200Z since"
    ) as raised:
        pulled.get_or_compute(100)
    assert str(raised.value.__cause__) == "no answer at 100"
    assert source.asked == [100, 200]


def test_skipped_time_has_no_records(pulled: PulledInputDStream, source: Source) -> None:
    assert records(pulled, 500) == [500]
    # A window's.
    assert [records(pulled, time_ms) for time_ms in (300, 400, 500)] == [[], [], [500]]
    assert source.asked == [500]


def test_source_errors_are_forgotten_with_their_batch(pulled: PulledInputDStream, source: Source) -> None:
    source.failures = 50
    for time_ms in range(100, 5100, 100):
        with pytest.raises(ConnectionError):
            pulled.get_or_compute(time_ms)
        pulled.clear_metadata(time_ms, unpersist=True)
    # No public name for a leak: errors of old batches.
    assert len(pulled._failed) == 1


def test_retry_of_a_queue_batch_uses_the_same_items(context: FakeContext) -> None:
    seen: list[Any] = []
    items: deque[Any] = deque([None, [1], [2]])
    stream = QueueInputDStream(context.graph, items, one_at_a_time=True, default=None)
    DStream(stream, cast(StreamingContext, context)).foreachRDD(lambda rdd: seen.append(rdd.collect()))
    context.graph.connect(GraphRuntime(generation_retries=2))
    context.graph.start(0)
    (first,) = context.graph.generate_jobs(100)
    (second,) = context.graph.generate_jobs(200)
    with pytest.raises(BatchFailedError, match=r"3 attempts: .*NoneType"):
        first.run()
    second.run()
    assert seen == [[1]]
    context.graph.clear_metadata(200, unpersist=True)
    # No public name for a leak: items of old batches.
    assert stream._taken == {}
    assert list(items) == [[2]]


class LastingSource(Source):
    """A source whose position a later run restores."""

    def __init__(self, context: FakeContext) -> None:
        super().__init__(context)
        self.again: list[int] = []

    def position(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def restore(self, position: Mapping[str, Any]) -> None:
        self.asked = list(position["asked"])

    def compute_again(self, batch_time_ms: int) -> SourceBatch | None:
        self.again.append(batch_time_ms)
        return SourceBatch(self._sc.parallelize([-batch_time_ms]), 1) if batch_time_ms in self.asked else None


def test_batch_repeated_by_two_runs_has_its_records_in_both(context: FakeContext) -> None:
    # Each run dies before batch 200 is complete.
    def a_run(position: Mapping[str, Any] | None) -> tuple[PulledInputDStream, LastingSource]:
        source = LastingSource(context)
        stream = PulledInputDStream(context.graph, lambda: source)
        stream.initialize(0)
        if position is not None:
            stream.recover_from(json.loads(json.dumps(position)))
        return stream, source

    first, _source = a_run(None)
    assert [records(first, time_ms) for time_ms in (100, 200)] == [[100], [200]]
    second, _source = a_run(first.position())
    assert records(second, 200) == [-200]
    third, source = a_run(second.position())
    assert records(third, 200) == [-200]
    assert source.again == [200]
    assert records(third, 300) == [300]


def test_source_keeps_what_failed_batches_and_recovered_states_read(
    context: FakeContext, pulled: PulledInputDStream, source: Source
) -> None:
    remember_ms = pulled.remember_ms
    pulled.clear_metadata(5000, unpersist=True)
    context.graph.failed_ms = [2000, 4000]
    pulled.clear_metadata(6000, unpersist=True)
    context.graph.runtime = GraphRuntime(recoverable_ms=lambda: 1000)
    pulled.clear_metadata(7000, unpersist=True)
    context.graph.failed_ms = []
    context.graph.runtime = GraphRuntime(recoverable_ms=lambda: None)
    pulled.clear_metadata(8000, unpersist=True)
    assert [time_ms + remember_ms for time_ms in source.cleaned_up] == [5000, 2000, 1000, 8000]
