"""Arguments that an operator refuses, by type and message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import DStream, StateSpec, StreamingContext
from penstock.errors import ConfigurationError
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


WINDOWS = {
    "window": lambda stream, *durations: stream.window(*durations),
    "reduceByWindow": lambda stream, *durations: stream.reduceByWindow(max, None, *durations),
    "countByWindow": lambda stream, *durations: stream.countByWindow(*durations),
    "countByValueAndWindow": lambda stream, *durations: stream.countByValueAndWindow(*durations),
    "groupByKeyAndWindow": lambda stream, *durations: stream.groupByKeyAndWindow(*durations),
    "reduceByKeyAndWindow": lambda stream, *durations: stream.reduceByKeyAndWindow(max, None, *durations),
    "reduceByKeyAndWindow, inverse": lambda stream, *durations: stream.reduceByKeyAndWindow(max, min, *durations),
}


@pytest.fixture
def stream(unstarted: StreamingContext) -> DStream[Any]:
    return unstarted.queueStream([[1]])


@pytest.mark.parametrize("make", WINDOWS.values(), ids=WINDOWS)
def test_durations_are_multiples_of_the_slide(stream: DStream[Any], make: Any) -> None:
    for unusable, name in (((0, 0.5), "window"), ((1, 0), "slide"), (("1", 0.5), "window")):
        with pytest.raises(ValueError, match=f"{name}Duration=.*: must be a number of seconds, at least 0.001"):
            make(stream, *unusable)
    for durations, name in (((0.1, 0.5), "window"), ((1, 0.1), "slide")):
        message = rf"{name}Duration must be multiple of the parent dstream's slide \(batch\) duration \(500 ms\)"
        with pytest.raises(ValueError, match=message):
            make(stream, *durations)
    with pytest.raises(ValueError, match=r"\(1500 ms\)"):
        make(stream.window(3, 1.5), 3, 2)


def test_functions_take_the_arguments_that_they_are_given(stream: DStream[Any]) -> None:
    def one(_a: Any) -> None: ...

    with pytest.raises(AssertionError, match="func should take two or three arguments"):
        stream.transformWith(one, stream)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="a state function should take three or four arguments"):
        StateSpec.function(one)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be called"):
        StateSpec.function(None)  # type: ignore[call-overload]


def test_streams_that_are_put_together_slide_alike(unstarted: StreamingContext, stream: DStream[Any]) -> None:
    other = stream.window(1, 1)
    with pytest.raises(ValueError, match=r"the two DStream should have same slide duration, and have .* s and .* s"):
        stream.union(other)
    with pytest.raises(ValueError, match=r"All DStreams should have same slide duration, and these have .* s and"):
        unstarted.union(stream, other)
    for operation in (stream.cogroup, stream.join, stream.leftOuterJoin, stream.rightOuterJoin, stream.fullOuterJoin):
        with pytest.raises(ValueError, match="should have same slide duration"):
            operation(other)
    with pytest.raises(ValueError, match="should have same slide duration"):
        stream.transformWith(lambda a, b: a, other)
    with pytest.raises(ValueError, match="should have same slide duration"):
        unstarted.transform([stream, other], lambda rdds: rdds[0])


def test_streams_belong_to_one_context(unstarted: StreamingContext, stream: DStream[Any], sc: Any) -> None:
    other: DStream[Any] = StreamingContext(sc, 0.5).queueStream([[1]])
    operations: list[Callable[[], object]] = [
        lambda: unstarted.union(stream, other),
        lambda: unstarted.transform([other], lambda rdds: rdds[0]),
        lambda: stream.union(other),
        lambda: stream.join(other),
    ]
    for operation in operations:
        with pytest.raises(ValueError, match="should belong to"):
            operation()


def test_union_transform_and_queue_stream_refuse_unusable_arguments(
    unstarted: StreamingContext, stream: DStream[Any]
) -> None:
    with pytest.raises(ValueError, match="should have at least one DStream to union"):
        unstarted.union()
    with pytest.raises(TypeError, match="union takes a DStream, not list"):
        unstarted.union(stream, [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="should have at least one DStream to transform"):
        unstarted.transform([], lambda rdds: rdds[0])
    with pytest.raises(TypeError, match="transform takes a DStream, not int"):
        unstarted.transform([5], lambda rdds: rdds[0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="transformFunc must be a function, not 5"):
        unstarted.transform([stream], 5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="empty list and no default"):
        unstarted.queueStream([])
    for no_queue in (5, "text"):
        with pytest.raises(TypeError, match=r"queueStream takes a list of RDDs, a deque or a queue.Queue, not "):
            unstarted.queueStream(no_queue)  # type: ignore[arg-type]


def test_map_with_state_refuses_an_invalid_state_spec(stream: DStream[Any]) -> None:
    def update(key: Any, value: Any, state: Any) -> None: ...

    with pytest.raises(TypeError, match=r"takes a StateSpec, made with StateSpec.function\(f\); not function"):
        stream.mapWithState(update)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="numPartitions must be at least 1, not 0"):
        StateSpec.function(update).numPartitions(0)
    with pytest.raises(ValueError, match=r"duration=0: must be a number of seconds, at least 0\.001"):
        StateSpec.function(update).timeout(0)


def test_remember_refuses_durations_that_are_not_positive_and_a_second_call(unstarted: StreamingContext) -> None:
    with pytest.raises(ConfigurationError, match=r"duration=0: must be a number of seconds, at least 0\.001"):
        unstarted.remember(0)
    unstarted.remember(1)
    with pytest.raises(ConfigurationError, match=r"remember was set already, to .* s: call ssc.remember once"):
        unstarted.remember(1)


CARRIED_ON = {
    "updateStateByKey": lambda stream: stream.updateStateByKey(lambda values, state: 1),
    "mapWithState": lambda stream: stream.mapWithState(StateSpec.function(lambda key, value, state: 1)),
    "stateSnapshots": lambda stream: stream.mapWithState(
        StateSpec.function(lambda key, value, state: 1)
    ).stateSnapshots(),
    "reduceByKeyAndWindow": lambda stream: stream.reduceByKeyAndWindow(max, min, 5),
    "reduceByWindow": lambda stream: stream.reduceByWindow(max, min, 5, 1),
    "countByWindow": lambda stream: stream.countByWindow(5, 1),
    "countByValueAndWindow": lambda stream: stream.countByValueAndWindow(5, 1),
    "checkpoint": lambda stream: stream.checkpoint(5),
}


@pytest.fixture
def without_checkpoint_directory(sc: Any) -> Iterator[None]:
    """Earlier tests may have set one: ``sc.setCheckpointDir`` lasts as long as the SparkContext."""
    spark = sc._jsc.sc()
    before, set_directory = spark.getCheckpointDir(), getattr(spark, "checkpointDir_$eq")
    set_directory(sc._jvm.scala.Option.empty())
    yield
    set_directory(before)


@pytest.mark.usefixtures("without_checkpoint_directory")
@pytest.mark.parametrize("operation", CARRIED_ON.values(), ids=CARRIED_ON)
def test_stateful_operators_need_a_checkpoint_directory(sc: Any, operation: Any) -> None:
    message = "The checkpoint directory has not been set. Please set it by StreamingContext.checkpoint()"
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        StreamHarness(sc).run(operation, [[1]])


def test_windows_without_inverse_need_no_checkpoint_directory(sc: Any) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        pairs = stream.map(lambda n: (n, 1))
        grouped = pairs.groupByKeyAndWindow(6, 1).mapValues(list)
        return grouped.union(pairs.reduceByKeyAndWindow(max, None, 6, 1)).union(pairs.window(2))

    assert StreamHarness(sc).run(operation, [[1]]) == [[(1, [1]), (1, 1), (1, 1)]]
