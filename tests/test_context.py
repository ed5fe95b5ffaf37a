"""``StreamingContext``: who may end it. Its engine only notes what it is asked for, and there is no Spark."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext

from penstock import StreamingContext
from penstock import context as context_module
from penstock.runtime.threads import EngineThread

ON_SHUTDOWN = "spark.streaming.stopGracefullyOnShutdown"


class FakeSpark(SparkContext):
    """A SparkContext that only knows whether it was stopped."""

    master = "local[2]"
    _jsc: Any = None

    def __init__(self) -> None:
        self.stops = 0

    def getConf(self) -> SparkConf:
        conf = SparkConf(loadDefaults=False)
        return conf.set("spark.python.unix.domain.socket.enabled", "true").set(ON_SHUTDOWN, "true")

    def stop(self) -> None:
        self.stops += 1


class FakeEngine:
    """Stops as the test says."""

    generator = checkpointer = None

    def __init__(self, *_parts: Any) -> None:
        self.deadlines: list[float | None] = []
        self.on_stop: Callable[[], object] = lambda: None
        self.broken_off = threading.Event()

    def start(self, _kept: object) -> None:
        """Nothing to start."""

    def stop(self, deadline: float | None) -> None:
        self.deadlines.append(deadline)
        self.on_stop()

    def stop_at_once(self) -> None:
        self.broken_off.set()


@pytest.fixture
def spark() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def context(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamingContext]:
    """One that has started, on the main thread."""
    monkeypatch.setattr(context_module, "Engine", FakeEngine)
    made = StreamingContext(spark, 1.0)
    monkeypatch.setattr(made.graph, "validate", lambda: None)
    made.start()
    yield made
    made.stop(stopSparkContext=False)


def engine_of(context: StreamingContext) -> Any:
    return context._engine


def test_a_second_signal_during_the_stop_at_exit_stops_at_once(context: StreamingContext) -> None:
    engine = engine_of(context)

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert engine.broken_off.wait(10)

    engine.on_stop = stop
    context._on_exit()
    assert [deadline is not None for deadline in engine.deadlines] == [True]


def test_signals_are_given_back_when_the_context_has_ended_though_nobody_waits_for_it(
    context: StreamingContext,
) -> None:
    heard: list[int] = []

    def own(number: int, _frame: object) -> None:
        heard.append(number)

    before, context._signals._before[signal.SIGTERM] = context._signals._before[signal.SIGTERM], own
    stopping = threading.Thread(target=lambda: context.stop(stopSparkContext=False))
    stopping.start()
    stopping.join(10)
    os.kill(os.getpid(), signal.SIGTERM)
    given_back = signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
    assert given_back is own


def on_engine_thread_do(action: Callable[[], object]) -> None:
    """As a listener does."""
    thread = EngineThread("listener", action)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("asks", [True, False])
def test_spark_is_stopped_once_if_a_listener_asks_for_it_while_all_stops(
    asks: bool, context: StreamingContext, spark: FakeSpark
) -> None:
    engine = engine_of(context)
    engine.on_stop = lambda: on_engine_thread_do(
        lambda: context.stop(stopSparkContext=asks, stopGracefully=True),
    )
    context.stop(stopSparkContext=False, stopGracefully=True)
    assert spark.stops == asks


def test_spark_is_stopped_if_a_listener_asks_for_it_when_all_has_stopped(
    context: StreamingContext, spark: FakeSpark
) -> None:
    context.stop(stopSparkContext=False)
    assert spark.stops == 0
    on_engine_thread_do(context.stop)
    assert spark.stops == 1


def test_spark_is_stopped_at_exit_if_a_listener_asks_for_it(context: StreamingContext, spark: FakeSpark) -> None:
    engine_of(context).on_stop = lambda: on_engine_thread_do(context.stop)
    context._on_exit()
    assert spark.stops == 1
