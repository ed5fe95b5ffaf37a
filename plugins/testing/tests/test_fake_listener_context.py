"""``FakeListenerContext`` answers as a program would, and records what listeners do."""

from __future__ import annotations

import pytest
from attrs import frozen

from penstock import (
    BatchInfo,
    ListenerContext,
    ListenerCounts,
    ReceiverInfo,
    ReceiverStarted,
    StorageInfo,
    StreamInputInfo,
)
from penstock.errors import ConfigurationError, UnknownNameError
from penstock_testing import FakeListenerContext


@frozen
class Options:
    port: int = 80


def test_commands_are_recorded_and_take_effect() -> None:
    context = FakeListenerContext()
    assert isinstance(context, ListenerContext)
    context.set_rate(1, 50.0)
    context.set_rate(9, 5.0)
    assert context.request_executors(2)
    assert context.kill_executor("1")
    assert not context.kill_executor("77")
    assert context.commands == [
        ("set_rate", 1, 50.0),
        ("set_rate", 9, 5.0),
        ("request_executors", 2),
        ("kill_executor", "1"),
        ("kill_executor", "77"),
    ]
    assert (context.rate_limit(1), context.rate_limit(9)) == (50.0, None)
    assert context.executors() == ["2", "3", "4"]


def test_commands_after_the_stop_have_no_effect() -> None:
    context = FakeListenerContext()
    context.has_stopped = True
    context.set_rate(0, 50.0)
    assert not context.request_executors(1)
    assert context.commands == []
    assert context.rate_limit(0) is None


def test_options_come_from_the_configuration() -> None:
    context = FakeListenerContext({"spark.penstock.ui.port": "8080"})
    assert context.options("spark.penstock.ui.", Options) == Options(8080)
    with pytest.raises(UnknownNameError, match="prot"):
        FakeListenerContext({"spark.penstock.ui.prot": "1"}).options("spark.penstock.ui.", Options)


def test_saved_values_go_through_json_to_a_recovered_context() -> None:
    context = FakeListenerContext()
    assert context.save("mine", lambda: {"a": (1, 2)}) is None
    context.set_rate(0, 7.0)
    recovered = context.recovered()
    assert recovered.save("mine", lambda: None) == {"a": [1, 2]}
    assert recovered.rate_limit(0) == 7.0
    context.save("bad", lambda: {1, 2})
    with pytest.raises(TypeError):
        context.recovered()


def test_rate_estimator_is_the_configured_one_and_the_same_on_every_call() -> None:
    context = FakeListenerContext()
    estimator = context.rate_estimator(0)
    assert estimator is context.rate_estimator(0)
    assert estimator is not None
    assert estimator.compute(1000, 500, 250, 0) == 2000
    prefix = "spark.streaming.backpressure"
    fixed = FakeListenerContext({f"{prefix}.rateEstimator": "fixed", f"{prefix}.fixed.rate": "12"}).rate_estimator(0)
    assert fixed is not None
    assert fixed.initial_rate == 12
    assert FakeListenerContext({f"{prefix}.enabled": "false"}).rate_estimator(0) is None
    with pytest.raises(ConfigurationError, match="stream 5 has no receiver"):
        context.rate_estimator(5)


def test_processing_delay_is_attributed_to_streams_by_their_records() -> None:
    context = FakeListenerContext(streams=(0, 1))
    inputs = {0: StreamInputInfo(0, 900), 1: StreamInputInfo(1, 100), 7: StreamInputInfo(7, 5000)}
    batch = BatchInfo(1000, inputs, 1000, 1000, 2000, {})
    assert [context.attributed_delay(stream, batch) for stream in (0, 1)] == [1000, 200]
    assert context.attributed_delay(0, BatchInfo(1000, inputs, 1000, None, None, {})) is None


def test_receivers_are_those_of_the_last_events() -> None:
    context = FakeListenerContext(streams=(4,))
    info = ReceiverInfo(4, "Receiver-4", True, "host", "1")
    context.observe(ReceiverStarted(info))
    assert context.receiver_infos() == {4: info}
    assert [stream.stream_id for stream in context.receiver_streams] == [4]
    assert len(context.graph()) == 2


def test_stop_calls_what_was_to_be_called_once() -> None:
    context, called = FakeListenerContext(), list[int]()
    context.on_stopped(lambda: called.append(1))
    context.set_rate(0, 5)
    context.stop()
    context.stop()
    context.set_rate(0, 7)
    assert (called, context.rate_limit(0)) == ([1], 5)


def test_what_a_test_sets_is_what_listeners_are_answered() -> None:
    context = FakeListenerContext()
    context.stored, context.counts = StorageInfo(3, 500), [ListenerCounts("x", 1, 2, True)]
    context.publish_ui("http://127.0.0.1:1")
    assert (context.storage(), context.listener_counts()) == (StorageInfo(3, 500), [ListenerCounts("x", 1, 2, True)])
    assert (context.ui_url, context.spark_ui_url) == ("http://127.0.0.1:1", "")
