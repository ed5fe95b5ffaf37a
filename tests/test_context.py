"""``StreamingContext``: its life cycle, with a fake engine and without Spark."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from pyspark import SparkConf, SparkContext
from tests import helpers
from tests.helpers import graph_of
from tests.helpers.gate import Gate
from tests.helpers.waiting import wait_for

from penstock import Receiver, StreamingContext, StreamingContextState, context as context_module
from penstock.conf import Settings
from penstock.errors import BatchFailedError, ConfigurationError, ReceiverFailedError, StreamingStateError
from penstock.runtime.threads import EngineThread
from penstock.spark import cluster

ON_SHUTDOWN = "spark.streaming.stopGracefullyOnShutdown"


class FakeSpark(SparkContext):
    """A SparkContext that only knows whether it was stopped."""

    master = "local[2]"
    applicationId = "app-1"
    uiWebUrl = None
    _jsc: Any = None

    def __init__(self) -> None:
        self.stops = 0
        self.on_stop: Callable[[], object] = lambda: None

    def getConf(self) -> SparkConf:
        conf = SparkConf(loadDefaults=False)
        return conf.set("spark.python.unix.domain.socket.enabled", "true").set(ON_SHUTDOWN, "true")

    def stop(self) -> None:
        self.stops += 1
        self.on_stop()


class FakeEngine:
    """An engine that stops as the test says."""

    generator = None

    def __init__(self, *_parts: Any) -> None:
        self.deadlines: list[float | None] = []
        self.on_stop: Callable[[], object] = lambda: None
        self.stopped_at_once = threading.Event()

    def start(self, _listener_values: object) -> None:
        """There is nothing to start."""

    def stop(self, deadline: float | None) -> None:
        self.deadlines.append(deadline)
        self.on_stop()

    def stop_at_once(self) -> None:
        self.stopped_at_once.set()


@pytest.fixture
def spark() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def context(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamingContext]:
    """An active context."""
    monkeypatch.setattr(context_module, "Engine", FakeEngine)
    made = StreamingContext(spark, 1.0)
    monkeypatch.setattr(graph_of(made), "validate", lambda: None)
    made.start()
    yield made
    made.stop(stopSparkContext=False)


def engine_of(context: StreamingContext) -> Any:
    """The fake engine of a started context."""
    return helpers.engine_of(context)


def test_second_signal_during_the_stop_at_exit_stops_at_once(context: StreamingContext) -> None:
    engine = engine_of(context)

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert engine.stopped_at_once.wait(10)

    engine.on_stop = stop
    context._on_exit()  # as atexit does, once per process
    assert [deadline is not None for deadline in engine.deadlines] == [True]


def test_signal_handlers_are_restored_when_the_context_ends(
    context: StreamingContext,
) -> None:
    received: list[int] = []

    def own(number: int, _frame: object) -> None:
        received.append(number)

    # Simulates a handler that the program has set before.
    before, context._signals._previous[signal.SIGTERM] = context._signals._previous[signal.SIGTERM], own
    stopping = threading.Thread(target=lambda: context.stop(stopSparkContext=False))
    stopping.start()
    stopping.join(10)
    os.kill(os.getpid(), signal.SIGTERM)
    restored = signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert restored is own


def on_engine_thread_do(action: Callable[[], object]) -> None:
    """Run an action as a listener would."""
    thread = EngineThread("listener", action)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("asks", [True, False])
def test_spark_context_is_stopped_once_if_a_listener_requests_it_during_a_stop(
    asks: bool, context: StreamingContext, spark: FakeSpark
) -> None:
    engine = engine_of(context)
    engine.on_stop = lambda: on_engine_thread_do(
        lambda: context.stop(stopSparkContext=asks, stopGracefully=True),
    )
    context.stop(stopSparkContext=False, stopGracefully=True)
    assert spark.stops == asks


def test_spark_context_is_stopped_if_a_listener_requests_it_after_a_stop(
    context: StreamingContext, spark: FakeSpark
) -> None:
    context.stop(stopSparkContext=False)
    assert spark.stops == 0
    on_engine_thread_do(context.stop)
    assert spark.stops == 1


def test_spark_context_is_stopped_at_exit_if_a_listener_requests_it(
    context: StreamingContext, spark: FakeSpark
) -> None:
    engine_of(context).on_stop = lambda: on_engine_thread_do(context.stop)
    context._on_exit()  # as atexit does, once per process
    assert spark.stops == 1


def test_program_awaits_the_stop_of_spark_that_a_listener_has_requested(
    context: StreamingContext, spark: FakeSpark
) -> None:
    # A program that ended earlier would take the stopping thread with it, in the middle of the stop of Spark.
    ended: list[bool] = []
    spark.on_stop = lambda: ended.append(context.awaitTermination(0))
    on_engine_thread_do(context.stop)
    assert context.awaitTermination(10)
    assert (spark.stops, ended) == (1, [False])


def test_spark_context_is_not_stopped_again_while_it_stops(context: StreamingContext, spark: FakeSpark) -> None:
    # A listener requests the stop at every batch: the last one may come late.
    spark.on_stop = lambda: on_engine_thread_do(context.stop)
    on_engine_thread_do(context.stop)
    assert context.awaitTermination(10)
    context.stop()
    assert spark.stops == 1


def test_job_that_the_stop_of_spark_ends_is_no_error_of_the_program(
    context: StreamingContext, spark: FakeSpark
) -> None:
    # Called as the engine does, which is fake here.
    spark.on_stop = lambda: context._on_error(RuntimeError("cancelled: SparkContext was stopped"))
    on_engine_thread_do(context.stop)
    assert context.awaitTermination(10)


@pytest.mark.parametrize(
    ("how", "graceful"),
    [
        ({"stopGraceFully": True}, True),
        ({"stopGracefully": True}, True),
        ({"stopGraceFully": False, "stopGracefully": True}, True),
        ({}, False),
        ({"stopGraceFully": False}, False),
        ({"stopGraceFully": True, "stopGracefully": False}, False),
    ],
)
def test_a_graceful_stop_has_two_spellings(context: StreamingContext, how: dict[str, bool], graceful: bool) -> None:
    context.stop(stopSparkContext=False, **how)
    # A stop at once has no deadline.
    assert [deadline is not None for deadline in engine_of(context).deadlines] == [graceful]


def test_stop_after_a_graceful_stop_is_no_escalation(
    context: StreamingContext, caplog: pytest.LogCaptureFixture
) -> None:
    context.stop(stopSparkContext=False, stopGracefully=True)
    context.stop()
    assert "graceful stop ended" not in caplog.text
    assert [deadline is not None for deadline in engine_of(context).deadlines] == [True]


def test_exit_during_a_stop_waits_for_its_end(context: StreamingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    engine_of(context).on_stop = lambda: may_end.wait(10)
    # Holds the race open: `stop` returns only after this thread ends.
    stopping = context._request_stop(graceful=True, stop_spark=False)
    join = stopping.join

    def end_and_join() -> None:
        may_end.set()
        join()

    monkeypatch.setattr(stopping, "join", end_and_join)
    context._on_exit()  # as atexit does, once per process
    assert context.getState() is StreamingContextState.STOPPED
    assert len(engine_of(context).deadlines) == 1


# -- starts --


def test_second_start_is_ignored_with_a_warning(context: StreamingContext, caplog: pytest.LogCaptureFixture) -> None:
    engine = engine_of(context)
    context.start()
    assert engine_of(context) is engine
    assert "start ignored: context already active" in caplog.text


def test_stopped_context_does_not_start_again(context: StreamingContext) -> None:
    context.stop(stopSparkContext=False)
    with pytest.raises(StreamingStateError, match="was stopped; create a new one"):
        context.start()


def test_second_active_context_of_a_process_is_refused(context: StreamingContext, spark: FakeSpark) -> None:
    with pytest.raises(StreamingStateError, match=r"a StreamingContext is active: stop StreamingContext\.getActive"):
        StreamingContext(spark, 1.0).start()
    assert StreamingContext.getActive() is context


class RefusingEngine(FakeEngine):
    """An engine that does not start."""

    def start(self, _listener_values: object) -> None:
        raise ConfigurationError("too few cores")


def test_failed_start_stops_the_context(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_module, "Engine", RefusingEngine)
    context = StreamingContext(spark, 1.0)
    with pytest.raises(ConfigurationError, match="No output operations registered"):
        context.start()
    assert context.getState() is StreamingContextState.STOPPED
    context = StreamingContext(spark, 1.0)
    monkeypatch.setattr(graph_of(context), "validate", lambda: None)
    with pytest.raises(ConfigurationError, match="too few cores"):
        context.start()
    assert engine_of(context).deadlines == [None]
    assert context.getState() is StreamingContextState.STOPPED
    assert StreamingContext.getActive() is None


def test_get_active_or_create_prefers_the_active_context(context: StreamingContext, spark: FakeSpark) -> None:
    assert StreamingContext.getActiveOrCreate(None, lambda: pytest.fail("called")) is context
    context.stop(stopSparkContext=False)
    created = StreamingContext(spark, 1.0)
    assert StreamingContext.getActiveOrCreate(None, lambda: created) is created


@pytest.mark.parametrize(
    ("setup", "message"),
    [(5, "setupFunc must be a function, not 5"), (str, "must return the StreamingContext that it created, not str")],
)
def test_setup_func_that_creates_no_context_is_refused(setup: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        StreamingContext.getActiveOrCreate(None, setup)


# -- with --


def test_leaving_a_with_block_stops_gracefully_and_keeps_the_spark_context(
    context: StreamingContext, spark: FakeSpark
) -> None:
    with context as entered:
        assert entered is context
    assert context.getState() is StreamingContextState.STOPPED
    assert [deadline is not None for deadline in engine_of(context).deadlines] == [True]
    assert spark.stops == 0


def test_exception_in_a_with_block_stops_at_once_and_is_raised(context: StreamingContext) -> None:
    with pytest.raises(KeyError, match="reason"), context:
        raise KeyError("reason")
    assert context.getState() is StreamingContextState.STOPPED
    assert engine_of(context).deadlines == [None]


def test_with_block_of_a_context_that_was_not_started_stops_it(spark: FakeSpark) -> None:
    with StreamingContext(spark, 1.0) as context:
        pass
    assert context.getState() is StreamingContextState.STOPPED


# -- run --


@pytest.fixture
def created(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> StreamingContext:
    """A context that was not started."""
    monkeypatch.setattr(context_module, "Engine", FakeEngine)
    monkeypatch.setattr(cluster, "is_stopped", lambda _sc: False)
    created = StreamingContext(spark, 1.0)
    monkeypatch.setattr(graph_of(created), "validate", lambda: None)
    return created


def test_run_stops_gracefully_after_its_timeout(created: StreamingContext, spark: FakeSpark) -> None:
    created.run(0.01)
    assert created.getState() is StreamingContextState.STOPPED
    assert [deadline is not None for deadline in engine_of(created).deadlines] == [True]
    assert spark.stops == 0


def test_repr_has_the_state_and_the_dashboard_without_its_token(created: StreamingContext) -> None:
    assert repr(created) == "<StreamingContext INITIALIZED, 1 s, no dashboard>"
    created.start()
    assert created._listener_context is not None  # the dashboard's plugin sets the address
    created._listener_context.ui_url = "http://host:4041/?token=secret"
    assert repr(created) == "<StreamingContext ACTIVE, 1 s, http://host:4041/>"
    created.stop(stopSparkContext=False)
    assert repr(created) == "<StreamingContext STOPPED, 1 s, no dashboard>"


def test_run_ends_when_the_context_is_stopped(created: StreamingContext) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(created.run)
        wait_for(lambda: created.getState() is StreamingContextState.ACTIVE, "start")
        created.stop()
        running.result(10)


@pytest.mark.usefixtures("created")
def test_run_stops_gracefully_on_a_signal_whatever_the_configuration_says(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = spark.getConf().set(ON_SHUTDOWN, "false")
    monkeypatch.setattr(spark, "getConf", lambda: conf)
    context = StreamingContext(spark, 1.0)
    monkeypatch.setattr(graph_of(context), "validate", lambda: None)
    with ThreadPoolExecutor(1) as pool:
        signalled = pool.submit(signal_when_active, context)
        context.run(10)
        signalled.result(10)
    assert [deadline is not None for deadline in engine_of(context).deadlines] == [True]


def signal_when_active(context: StreamingContext) -> None:
    wait_for(lambda: context.getState() is StreamingContextState.ACTIVE, "start")
    os.kill(os.getpid(), signal.SIGTERM)


def test_run_stops_at_once_and_raises_the_error_of_a_batch(created: StreamingContext) -> None:
    # Errors are reported as by the engine, which is fake here.
    created._on_error(error := BatchFailedError("first"))
    with pytest.raises(BatchFailedError) as caught:
        created.run(10)
    assert caught.value is error
    assert engine_of(created).deadlines == [None]


def test_run_goes_on_after_on_batch_error(created: StreamingContext) -> None:
    # Errors are reported as by the engine, which is fake here.
    errors: list[BatchFailedError] = []

    def on_batch_error(error: BatchFailedError) -> None:
        errors.append(error)
        if len(errors) < 3:
            created._on_error(BatchFailedError(str(len(errors))))
        else:
            created.stop(stopGracefully=True)

    created._on_error(BatchFailedError("0"))
    created.run(on_batch_error=on_batch_error)
    assert [str(error) for error in errors] == ["0", "1", "2"]


def test_error_of_on_batch_error_is_raised(created: StreamingContext) -> None:
    # Errors are reported as by the engine, which is fake here.
    def on_batch_error(_error: BatchFailedError) -> None:
        raise KeyError("handler")

    created._on_error(BatchFailedError("0"))
    with pytest.raises(KeyError, match="handler"):
        created.run(on_batch_error=on_batch_error)
    assert engine_of(created).deadlines == [None]


def test_run_raises_the_error_that_ended_the_context(created: StreamingContext) -> None:
    # Errors are reported as by the engine, which is fake here.
    errors: list[BatchFailedError] = []

    def on_batch_error(error: BatchFailedError) -> None:
        errors.append(error)
        created._on_give_up(BatchFailedError("too many"))

    created._on_error(BatchFailedError("0"))
    with pytest.raises(BatchFailedError, match="too many"):
        created.run(on_batch_error=on_batch_error)
    assert [str(error) for error in errors] == ["0"]


@pytest.mark.usefixtures("created")
def test_run_tells_on_batch_error_about_failed_batches_that_are_tolerated(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Errors are reported as by the engine, which is fake here.
    conf = spark.getConf().set("spark.penstock.maxFailedBatches", "3")
    monkeypatch.setattr(spark, "getConf", lambda: conf)
    context = StreamingContext(spark, 1.0)
    monkeypatch.setattr(graph_of(context), "validate", lambda: None)
    errors: list[BatchFailedError] = []

    def on_batch_error(error: BatchFailedError) -> None:
        errors.append(error)
        context.stop()

    monkeypatch.setattr(FakeEngine, "start", lambda *_arguments: context._on_error(BatchFailedError("0")))
    context.run(10, on_batch_error=on_batch_error)
    assert [str(error) for error in errors] == ["0"]


def test_run_raises_other_errors_than_those_of_batches(created: StreamingContext) -> None:
    # Errors are reported as by the engine, which is fake here.
    created._on_error(ReceiverFailedError("receiver"))
    with pytest.raises(ReceiverFailedError, match="receiver"):
        created.run(on_batch_error=lambda _error: None)


# -- arguments --


class SparkSession:
    """Only the name of Spark's; a session of Spark Connect has no SparkContext."""


def test_spark_session_stands_for_its_context(spark: FakeSpark) -> None:
    session = SparkSession()
    session.sparkContext = spark  # type: ignore[attr-defined]
    assert StreamingContext(cast(Any, session), 1).sparkContext is spark


def test_what_has_no_spark_context_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"not SparkSession of Spark Connect, which has none: use spark\.readStream$"
    ):
        StreamingContext(cast(Any, SparkSession()), 1)
    with pytest.raises(ConfigurationError, match=r"must be a SparkContext, not str$"):
        StreamingContext(cast(Any, "local"), 1)


def test_streaming_context_of_the_jvm_is_refused(spark: FakeSpark) -> None:
    with pytest.raises(ConfigurationError, match="jssc must be None: Penstock has no JVM streaming context"):
        StreamingContext(spark, 1, cast(Any, object()))


class Numbers(Receiver[int]):
    """A receiver."""


@pytest.mark.parametrize(
    ("receiver", "options", "message"),
    [
        (5, {}, r"takes an instance of a penstock\.Receiver class, not 5$"),
        (Numbers, {}, r"not <class '.*Numbers'>: pass Numbers\(\.\.\.\)$"),
        (Numbers(), {"rate": 5}, "takes options with the name of a receiver only; pass them to the class of this"),
    ],
    ids=["number", "class", "options of an instance"],
)
def test_receiver_stream_refuses_what_is_no_receiver(
    spark: FakeSpark, receiver: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        StreamingContext(spark, 1.0).receiverStream(receiver, **options)


def test_union_of_one_stream_is_that_stream(spark: FakeSpark) -> None:
    context = StreamingContext(spark, 1.0)
    stream = context.receiverStream(Numbers())
    assert context.union(stream) is stream


# -- errors --


def test_first_error_is_raised_by_await_termination(context: StreamingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "is_stopped", lambda _sc: False)
    assert context.awaitTermination(0) is False
    first = ValueError("first")
    for error in (first, ValueError("second")):
        context._on_error(error)  # as the engine does, which is fake here
    with pytest.raises(ValueError, match="first"):
        context.awaitTermination(10)


def test_error_is_raised_once_and_a_further_call_waits_for_the_next(
    context: StreamingContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "is_stopped", lambda _sc: False)
    first, second, third = (RuntimeError(str(number)) for number in range(3))
    fail = context._on_error  # as the engine does, which is fake here
    fail(first)
    with pytest.raises(RuntimeError) as caught:
        context.awaitTermination(10)
    assert caught.value is first
    # A loop that catches the error and waits again does not spin.
    assert context.awaitTerminationOrTimeout(0.01) is False
    fail(second)
    fail(third)
    with pytest.raises(RuntimeError) as caught:
        context.awaitTermination(10)
    assert caught.value is third
    context.stop()
    assert context.awaitTermination(10) is True


def test_each_thread_gets_an_error(context: StreamingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "is_stopped", lambda _sc: False)
    context._on_error(RuntimeError("lost"))  # as the engine does, which is fake here
    with pytest.raises(RuntimeError):
        context.awaitTermination(10)
    with ThreadPoolExecutor() as pool, pytest.raises(RuntimeError, match="lost"):
        pool.submit(context.awaitTermination, 10).result(10)


@pytest.mark.parametrize("fails", [False, True])
def test_stop_does_not_wait_for_a_start_and_follows_it(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    gate = Gate()

    def start(_engine: FakeEngine, _values: object) -> None:
        gate()
        if fails:
            raise OSError("no network")

    monkeypatch.setattr(FakeEngine, "start", start)
    monkeypatch.setattr(context_module, "Engine", FakeEngine)
    context = StreamingContext(spark, 1.0)
    monkeypatch.setattr(graph_of(context), "validate", lambda: None)
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(context.start)
        assert gate.reached.wait(10)
        # It may be repeated, and another start is ignored.
        context.stop(stopSparkContext=True, stopGraceFully=True)
        context.stop(stopGraceFully=True)
        context.start()
        assert (starting.done(), context.getState()) == (False, StreamingContextState.INITIALIZED)
        gate.open()
        if fails:
            with pytest.raises(OSError, match="no network"):
                starting.result(10)
        else:
            starting.result(10)
        assert context.awaitTermination(10) is True
    assert (context.getState(), spark.stops) == (StreamingContextState.STOPPED, 1)
    assert [deadline is None for deadline in engine_of(context).deadlines] == [fails]


def test_reason_for_giving_up_is_raised_only_after_the_stop(context: StreamingContext) -> None:
    seen: list[bool] = []
    engine_of(context).on_stop = lambda: seen.append(context.awaitTermination(0))
    context._on_give_up(ValueError("too many failures"))  # as the engine does, which is fake here
    with pytest.raises(ValueError, match="too many failures"):
        context.awaitTermination(10)
    assert seen == [False]


@pytest.mark.parametrize(
    ("configured", "interval_ms", "seconds"), [("0", 1000, 60), ("0", 30_000, 300), ("5s", 1000, 5)]
)
def test_graceful_stop_may_take_ten_intervals_and_at_least_a_minute_unless_configured(
    configured: str, interval_ms: int, seconds: float
) -> None:
    settings = Settings.parse({"spark.streaming.gracefulStopTimeout": configured})
    assert settings.graceful_stop_s(interval_ms) == seconds
