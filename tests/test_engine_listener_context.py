"""EngineListenerContext: what listener plugins see of an engine, and what they may do to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import field, frozen

from penstock import (
    BatchCompleted,
    ListenerCounts,
    RateEstimatorSpec,
    Receiver,
    StorageInfo,
)
from penstock.checkpoint.program import Program
from penstock.conf import Settings
from penstock.engine_listener_context import EngineListenerContext
from penstock.errors import ConfigurationError, UnknownNameError
from penstock.listen.listener_bus import ListenerBus
from penstock.listen.registered_listener import register
from penstock.plugins.listener_context import DStreamInfo, ReceiverStreamInfo
from penstock.rate.guarded_estimator import GuardedEstimator
from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation
from penstock_rate import FixedRateEstimator, PIDOptions, PIDRateEstimator, listeners, rate_estimators
from penstock_rate.rate_controller import RateController
from penstock_testing import ManualClock, batch_info

T = 1_700_000_000_000


class Tracker:
    """Takes rates; its one receiver has a backlog."""

    def __init__(self) -> None:
        self.rates: list[tuple[int, float]] = []
        self.limits: dict[int, float] = {}
        self.blocks = SimpleNamespace(state=SimpleNamespace(num_known=3, known_bytes=900), log_bytes=None)
        self.backlog = SimpleNamespace(num_bytes=1234)

    def send_rate_update(self, stream_id: int, rate: float) -> None:
        self.rates.append((stream_id, rate))

    def rate_limit(self, stream_id: int) -> float | None:
        return self.limits.get(stream_id)

    def receiver_infos(self) -> dict[int, Any]:
        return {0: "info"}

    def buffered_bytes(self) -> int:
        return 55


class Numbers(Receiver[int]):
    """A receiver."""


def stream(number: int, *parents: Any, receiver: object = None, name: str | None = None) -> Any:
    where = SimpleNamespace(short=f"map at app.py:{number}")
    return SimpleNamespace(
        number=number, id=number, parents=parents, call_site=where, name=name, receiver=receiver, role="input"
    )


class FakeProgram:
    """A program's configuration and graph, with a listener context."""

    def __init__(self, *specs: RateEstimatorSpec, streams: Any = (0, 1), **pairs: str) -> None:
        known = {spec.name: spec for spec in (*rate_estimators(), *specs)}

        def spec(_hook: str, name: str) -> RateEstimatorSpec:
            if name not in known:
                raise UnknownNameError("rate estimator", name, known)
            return known[name]

        prefix = "spark.streaming.backpressure."
        configuration = {f"{prefix}{name.replace('__', '.')}": value for name, value in pairs.items()}
        if max_rate := pairs.get("max_rate"):
            configuration["spark.streaming.receiver.maxRate"] = max_rate
            del configuration[f"{prefix}max_rate"]
        self.tracker = Tracker()
        self.bus = ListenerBus(10, 3)
        self.batch_pages = list[str]()
        self.engine = SimpleNamespace(
            scheduler=SimpleNamespace(failed_batches=[]),
            tracker=self.tracker,
            bus=self.bus,
            checkpointer=None,
            name_batch_page=self.batch_pages.append,
        )
        if "initialRate" in pairs:
            self.tracker.limits = {
                id_: min(float(pairs["initialRate"]), float(max_rate or 0) or 1e99)
                for id_ in streams
                if float(pairs["initialRate"])
            }
        #: In the checkpoint that the program recovers from.
        self.found: dict[str, Any] = {}
        inputs = [stream(id_, receiver=Numbers(), name="named" if id_ == 1 else None) for id_ in streams]
        inputs.append(stream(99))
        output = stream(100, *inputs)
        output.role = "output"
        configuration["spark.penstock.other.level"] = "7"
        spark = SimpleNamespace(
            getConf=lambda: SimpleNamespace(getAll=configuration.items),
            appName="app",
            applicationId="id-1",
            uiWebUrl=None,
        )
        graph = SimpleNamespace(inputs=inputs, batch_interval_ms=1000, streams=lambda: [inputs[0], output])
        settings, clock = Settings.parse(configuration), ManualClock(0)
        self.context = EngineListenerContext(
            Program(None, cast("Any", spark), settings, clock, cast("Any", graph)),
            cast("Any", SimpleNamespace(spec=spec)),
            cast("Any", self.engine),
            cast("Any", SimpleNamespace(saved_value=lambda name: self.found.get(name))),
        )

    def controllers(self) -> list[RateController]:
        return list(listeners(self.context))

    def saved(self) -> dict[str, Any]:
        """As a checkpoint has it."""
        return dict(json.loads(json.dumps({name: value() for name, value in self.context.saved_values.items()})))


def completed(records: Mapping[int, int], *, time: int = T, took: int = 10) -> BatchCompleted:
    return BatchCompleted(batch_info(time, records=records, processingDelay=took))


def test_describes_the_application_its_streams_and_its_graph() -> None:
    context = FakeProgram(streams=(0, 1)).context
    assert (context.application_name, context.application_id, context.batch_interval_ms) == ("app", "id-1", 1000)
    assert context.receiver_streams == [
        ReceiverStreamInfo(0, "Numbers-0", "Numbers"),
        ReceiverStreamInfo(1, "named", "Numbers"),
    ]
    assert context.graph() == [
        DStreamInfo(0, "SimpleNamespace", "", "map at app.py:0", (), role="input"),
        DStreamInfo(100, "SimpleNamespace", "", "map at app.py:100", (0, 1, 99), role="output"),
    ]
    assert list(context.receiver_infos()) == [0]
    assert context.backlog_bytes() == 1234
    assert context.spark_ui_url == ""
    assert context.storage() == StorageInfo(3, 900, 55)


def test_checkpoints_are_part_of_what_is_stored() -> None:
    program = FakeProgram()
    program.engine.checkpointer = SimpleNamespace(written_ms=T, failures=2)
    program.tracker.blocks.log_bytes = 70
    assert program.context.storage() == StorageInfo(3, 900, 55, 70, T, 2)
    program.engine.scheduler.failed_batches = [T - 5000, T]
    assert program.context.storage() == StorageInfo(3, 900, 55, 70, T, 2, 2, T - 5000)


def test_executors_are_those_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()

    def ask(_sc: object, what: object) -> bool:
        asked.append(what)
        return what == 3

    monkeypatch.setattr(cluster, "executors", lambda _sc: [TaskLocation("a", "1"), TaskLocation("b", "2")])
    for name in ("request_executors", "kill_executor"):
        monkeypatch.setattr(cluster, name, ask)
    context = FakeProgram().context
    assert context.executors() == ["1", "2"]
    assert (context.request_executors(3), context.kill_executor("2")) == (True, False)
    assert asked == [3, "2"]


def test_every_listener_is_counted() -> None:
    program = FakeProgram()
    controller = RateController(program.context, 0, PIDRateEstimator(PIDOptions(), 1000))
    program.bus.add(register(controller, "rate (penstock-rate 1)"))
    assert program.context.listener_counts() == [ListenerCounts("rate (penstock-rate 1)", 0, 0, False)]


def test_address_is_published_until_the_stop() -> None:
    program = FakeProgram()
    context = program.context
    assert context.ui_url is None
    context.publish_ui("http://127.0.0.1:4050", "http://127.0.0.1:4050/batch?id={batch_time}")
    assert program.batch_pages == ["http://127.0.0.1:4050/batch?id={batch_time}"]
    assert context.ui_url == "http://127.0.0.1:4050"
    context.stopped()
    assert context.ui_url is None


def test_every_stop_callback_is_called_once(caplog: pytest.LogCaptureFixture) -> None:
    context, called = FakeProgram().context, list[int]()
    context.on_stopped(lambda: called.append(1))
    context.on_stopped(lambda: 1 // 0)
    context.on_stopped(lambda: called.append(2))
    context.stopped()
    context.stopped()
    assert called == [1, 2]
    assert "stop callback of listener failed" in caplog.text


def test_rates_go_to_the_tracker() -> None:
    program = FakeProgram()
    program.tracker.limits = {1: 5.0}
    program.context.set_rate(1, 70)
    assert program.tracker.rates == [(1, 70)]
    assert [program.context.rate_limit(id_) for id_ in (0, 1)] == [None, 5]


@frozen
class Options:
    level: int = field(default=3)


def test_options_of_a_plugin_come_from_configuration() -> None:
    context = FakeProgram().context
    assert context.options("spark.penstock.other.", Options) == Options(7)
    assert context.options("spark.penstock.mine.", Options) == Options(3)
    assert context.configuration["spark.penstock.other.level"] == "7"

    @frozen
    class Renamed:
        levels: int = 1

    with pytest.raises(
        UnknownNameError, match=r"unknown option 'level' of configuration, set by spark.penstock.other.level.*'lev"
    ):
        context.options("spark.penstock.other.", Renamed)


@pytest.mark.parametrize(
    ("records", "expected"),
    [({0: 50, 1: 50}, 1000), ({0: 10, 1: 90}, 200), ({0: 10, 99: 90}, 1000), ({0: 0, 1: 90}, 1)],
    ids=str,
)
def test_only_receiver_streams_share_a_processing_delay(records: dict[int, int], expected: int) -> None:
    assert FakeProgram().context.attributed_delay(0, completed(records, took=1000).batchInfo) == expected


def test_batch_that_has_not_completed_has_no_attributed_delay() -> None:
    assert FakeProgram().context.attributed_delay(0, batch_info(T, processingDelay=None)) is None


@pytest.mark.parametrize("name", ["pid", "model"])
def test_recovered_run_estimates_as_if_it_had_not_ended(name: str) -> None:
    def batch(number: int) -> BatchCompleted:
        return completed({0: 400 + 37 * (number % 5)}, time=T + 1000 * number, took=700 + 11 * (number % 7))

    whole = FakeProgram(enabled="true", rateEstimator=name, streams=(0,))
    (one,) = whole.controllers()
    for number in range(20):
        one.onBatchCompleted(batch(number))

    first = FakeProgram(enabled="true", rateEstimator=name, streams=(0,))
    (before,) = first.controllers()
    for number in range(12):
        before.onBatchCompleted(batch(number))
    second = FakeProgram(enabled="true", rateEstimator=name, streams=(0,))
    second.found = first.saved()
    (after,) = second.controllers()
    assert second.tracker.rates == []  # the checkpoint has the receiver's rate
    assert second.saved() == second.found  # a checkpoint before the first batch has the state, too
    for number in range(12, 20):
        after.onBatchCompleted(batch(number))
    assert [*first.tracker.rates, *second.tracker.rates] == whole.tracker.rates


@pytest.mark.parametrize("saved", [{"rate": "fast"}, [], 7, {"another": 1}])
def test_saved_state_of_another_estimator_is_rejected_with_a_warning(
    saved: Any, caplog: pytest.LogCaptureFixture
) -> None:
    program = FakeProgram(enabled="true", rateEstimator="model", streams=(0,))
    program.found = {"rate model 0": saved}
    (made,) = program.controllers()
    assert "saved state of rate estimator rejected" in caplog.text
    assert program.tracker.rates == [(0, 2)]
    made.onBatchCompleted(completed({0: 2}))


@pytest.mark.parametrize("pairs", [{}, {"enabled": "false"}])
def test_without_backpressure_there_is_no_estimator(pairs: dict[str, str]) -> None:
    program = FakeProgram(**pairs)
    assert program.context.rate_estimator(0) is None
    assert program.controllers() == []


def estimator(context: EngineListenerContext, stream_id: int) -> GuardedEstimator:
    made = context.rate_estimator(stream_id)
    assert isinstance(made, GuardedEstimator)
    return made


def test_each_receiver_stream_has_one_estimator() -> None:
    context = FakeProgram(enabled="true").context
    assert isinstance(estimator(context, 0).estimator, PIDRateEstimator)
    assert estimator(context, 0) is estimator(context, 0)
    assert estimator(context, 0) is not estimator(context, 1)
    with pytest.raises(ConfigurationError, match="stream 99 has no receiver"):
        context.rate_estimator(99)


def test_options_of_the_estimator_come_from_configuration() -> None:
    program = FakeProgram(enabled="true", rateEstimator="fixed", fixed__rate="42.5", streams=(3,))
    (made,) = program.controllers()
    assert isinstance(estimator(program.context, 3).estimator, FixedRateEstimator)
    made.onBatchCompleted(completed({3: 1}))
    assert program.tracker.rates == [(3, 42.5), (3, 42.5)]


@pytest.mark.parametrize(
    ("name", "pairs", "rates"),
    [
        ("model", {}, [(0, 2), (1, 2)]),
        ("model", {"initialRate": "7000"}, []),
        ("model", {"initialRate": "0"}, [(0, 2), (1, 2)]),
        ("pid", {}, []),
    ],
)
def test_initial_rate_is_the_configured_one_or_else_the_estimators(
    name: str, pairs: dict[str, str], rates: list[tuple[int, float]]
) -> None:
    program = FakeProgram(enabled="true", rateEstimator=name, **pairs)
    program.controllers()
    assert program.tracker.rates == rates


@pytest.mark.parametrize("max_rate", ["0", "3000"])
def test_model_starts_from_the_configured_first_rate(max_rate: str) -> None:
    program = FakeProgram(enabled="true", rateEstimator="model", initialRate="7000", max_rate=max_rate, streams=(0,))
    (controller,) = program.controllers()
    # The input was the limit, not the rate: the rate in force stays.
    controller.onBatchCompleted(completed({0: 10}, took=50))
    ((_, rate),) = program.tracker.rates
    assert rate == (3000 if max_rate == "3000" else 7000)


def test_unknown_estimator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'pit'. Did you mean 'pid'\? Known: fixed, model, pid\."):
        FakeProgram(enabled="true", rateEstimator="pit").controllers()


@pytest.mark.parametrize(
    ("name", "option", "value"), [("pid", "minRate", "0"), ("model", "share", "2"), ("fixed", "rate", "-1")]
)
def test_invalid_estimator_option_is_refused(name: str, option: str, value: str) -> None:
    pairs: Any = {f"{name}__{option}": value}
    with pytest.raises(ConfigurationError, match=option):
        FakeProgram(enabled="true", rateEstimator=name, **pairs).controllers()


def test_estimator_faults_are_logged_with_stream_and_estimator(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_options: object, _interval_ms: int) -> Any:
        class Broken(PIDRateEstimator):
            def compute(self, *_batch: Any, **_more: Any) -> float | None:
                raise ZeroDivisionError("by records")

        return Broken(cast("Any", None), 1000)

    program = FakeProgram(RateEstimatorSpec("broken", broken), enabled="true", rateEstimator="broken", streams=(0,))
    (controller,) = program.controllers()
    for number in range(3):
        controller.onBatchCompleted(completed({0: 1}, time=T + 1000 * number))
    assert len(caplog.records) == 1  # once a minute
    assert "rate estimator failed" in caplog.text
    assert "stream_id=0" in caplog.text
    assert "ZeroDivisionError: by records" in caplog.text
    assert program.tracker.rates == []


def test_saved_value_of_a_plugin_is_found_after_a_restart() -> None:
    program = FakeProgram()
    value: Callable[[], Any] = lambda: {"peak": 5}  # noqa: E731
    assert program.context.save("mine", value) is None
    second = FakeProgram()
    second.found = program.saved()
    assert second.context.save("mine", value) == {"peak": 5}
