"""RateController: which batches it takes, what it tells the estimator, what it publishes, and what it survives."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import define

import penstock_rate
from penstock import (
    BatchCompleted,
    BatchInfo,
    OutputOperationInfo,
    RateEstimatorSpec,
    StreamingContext,
    StreamInputInfo,
)
from penstock.conf import Settings
from penstock.errors import ConfigurationError, PluginError, UnknownNameError
from penstock.listen.listener_bus import ListenerBus
from penstock.rate.plant_run import attributed_ms
from penstock_rate import FixedRateEstimator, PIDOptions, PIDRateEstimator, RateController
from penstock_rate.pid import PIDState
from penstock_rate.rate_controller import Estimate, controllers

T = 1_700_000_000_000


def completed(
    records: dict[int, int] | int = 100,
    *,
    time: int = T,
    late: int = 0,
    waited: int = 0,
    took: int = 10,
    failure: str | None = None,
) -> BatchCompleted:
    """A batch whose jobs were submitted late, then waited, then took their time."""
    counts = {0: records} if isinstance(records, int) else records
    start = time + late + waited
    operations = {
        0: OutputOperationInfo(time, 0, "", "", start, start + took),
        1: OutputOperationInfo(time, 1, "", "", start, start + took, failure),
    }
    inputs = {stream: StreamInputInfo(stream, count) for stream, count in counts.items()}
    return BatchCompleted(BatchInfo(time, inputs, time + late, start, start + took, operations))


class Scripted:
    """Answers what it is told to; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[int, int, int, int]] = []
        self.reason = ""

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        self.asked.append((time, numElements, processingDelay, schedulingDelay))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.reason = f"said {answer}"
        if isinstance(answer, Exception):
            raise answer
        return cast("float | None", answer)


class Steered:
    """A controller and what it published."""

    def __init__(self, *answers: Any, steered: tuple[int, ...] = (0,)) -> None:
        self.estimator = Scripted(*answers)
        self.published: list[tuple[int, float]] = []
        self.controller = RateController(0, self.estimator, lambda *rate: self.published.append(rate), steered)

    def sees(self, *batches: BatchCompleted) -> list[float]:
        for batch in batches:
            self.controller.onBatchCompleted(batch)
        return [rate for _, rate in self.published]


def test_what_the_estimator_says_is_published_as_it_is() -> None:
    steered = Steered(100, 200.5, 0.25)
    assert steered.sees(completed(), completed(time=T + 1), completed(time=T + 2)) == [100, 200.5, 0.25]
    assert steered.published[0] == (0, 100)


def test_scheduling_delay_is_from_the_nominal_time_of_the_batch() -> None:
    steered = Steered(1)
    steered.sees(completed(late=30, waited=5, took=20))
    assert steered.estimator.asked == [(T + 55, 100, 20, 35)]


def test_nothing_said_nothing_published() -> None:
    assert Steered(None).sees(completed()) == []


def test_batches_that_failed_wholly_or_in_part_are_not_looked_at() -> None:
    steered = Steered(1)
    assert steered.sees(completed(failure="Traceback: no")) == []
    assert steered.estimator.asked == []


def test_batches_that_do_not_know_the_stream_or_their_times_are_not_looked_at() -> None:
    steered = Steered(1)
    running = BatchInfo(T, {0: StreamInputInfo(0, 1)}, T, T, None, {})
    waiting = BatchInfo(T, {0: StreamInputInfo(0, 1)}, T, None, None, {})
    assert steered.sees(completed({7: 100}), BatchCompleted(running), BatchCompleted(waiting)) == []
    assert steered.estimator.asked == []


def test_a_batch_without_records_does_not_lower_the_rate() -> None:
    steered = Steered(500, 100, 600)
    batches = [completed(), completed(0, time=T + 1000), completed(0, time=T + 2000)]
    assert steered.sees(*batches) == [500, 600]


@pytest.mark.parametrize(
    "wrong",
    [math.nan, math.inf, -math.inf, 0, -1.0, "many", "250", b"12", True, [1], 10**400],
    ids=lambda wrong: f"{wrong!r:.10}",
)
def test_what_is_no_rate_is_refused_counted_and_the_last_one_stays(wrong: Any) -> None:
    steered = Steered(100, wrong, 200)
    batches = [completed(time=T + 1000 * number) for number in range(3)]
    assert steered.sees(*batches) == [100, 200]
    assert (steered.controller.refused, steered.controller.failed) == (1, 0)


class Unkept:
    """Its state, or its reason, is not to be had from the second batch on."""

    def __init__(self, state: Callable[[], Any], reason: Callable[[], str] = str) -> None:
        self._state, self._reason, self.batches = state, reason, 0

    @property
    def state(self) -> Any:
        return PIDState(1, 2.0, 3.0) if self.batches < 2 else self._state()

    @property
    def reason(self) -> str:
        return "good" if self.batches < 2 else self._reason()

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        self.batches += 1
        return 100.0 + self.batches


@define
class Seen:
    counts: set[int]


def broken() -> Any:
    raise RuntimeError("not now")


@pytest.mark.parametrize(
    "estimator", [Unkept(lambda: Seen({1})), Unkept(broken), Unkept(lambda: PIDState(1, 2.0, 3.0), broken)]
)
def test_a_state_or_a_reason_that_cannot_be_had_stops_neither_rates_nor_checkpoints(estimator: Unkept) -> None:
    context = Context(
        RateEstimatorSpec("odd", lambda _o, _i: estimator), enabled="true", rateEstimator="odd", streams=(0,)
    )
    (controller,) = context.controllers()
    for number in range(20):
        controller.onBatchCompleted(completed(time=T + 1000 * number))
    assert [rate for _, rate in context.rates] == [100.0 + number for number in range(1, 21)]
    assert (controller.refused, controller.failed) == (0, 19)
    (kept,) = context.kept.values()
    assert json.loads(json.dumps(kept())) == {"time": 1, "rate": 2.0, "error": 3.0}


@pytest.mark.parametrize("back_ms", [500, 2000, 3_600_000])
def test_a_clock_that_was_set_back_makes_no_batch_early(back_ms: int) -> None:
    published: list[float] = []
    controller = RateController(0, PIDRateEstimator(PIDOptions(), 1000), lambda _stream, rate: published.append(rate))
    for number in range(30):
        controller.onBatchCompleted(completed(900, time=T + 1000 * number, took=900))
    controller.onBatchCompleted(completed(900, time=T + 30_000 + back_ms, waited=-back_ms, took=900))
    assert published == [1000.0] * 30
    assert controller.refused == controller.failed == 0


def test_an_estimator_that_raises_is_survived_and_counted() -> None:
    steered = Steered(100, ZeroDivisionError("by records"), 200)
    batches = [completed(time=T + 1000 * number) for number in range(3)]
    assert steered.sees(*batches) == [100, 200]
    assert (steered.controller.refused, steered.controller.failed) == (0, 1)


@pytest.mark.parametrize("wrong", [math.nan, ZeroDivisionError("by records")])
def test_it_complains_once_a_minute(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    steered = Steered(wrong)
    steered.sees(*[completed(time=T + 1000 * number) for number in range(121)])
    complaints = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(complaints) == 3
    assert "the last" in complaints[0].message
    assert steered.controller.refused + steered.controller.failed == 121


def test_it_complains_again_when_the_clock_was_set_back(caplog: pytest.LogCaptureFixture) -> None:
    Steered(math.nan).sees(completed(), completed(time=T - 3_600_000), completed(time=T - 3_599_000))
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2


def test_a_rate_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "penstock"):
        Steered(100).sees(completed())
    assert "rate=100.0" in caplog.text
    assert "reason='said 100'" in caplog.text


def test_history_is_the_last_hundred_rates() -> None:
    steered = Steered(*range(1, 251))
    steered.sees(*[completed(time=T + 1000 * number) for number in range(250)])
    history = steered.controller.history()
    assert len(history) == 100
    assert history[-1] == Estimate(T + 249_010, 250.0, "said 250")
    assert [estimate.rate for estimate in history] == list(range(151, 251))


def test_history_holds_what_was_published_only() -> None:
    steered = Steered(None, math.nan, 3)
    steered.sees(*[completed(time=T + 1000 * number) for number in range(3)])
    assert [estimate.rate for estimate in steered.controller.history()] == [3]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({0: 50, 1: 50}, 1000),
        ({0: 10, 1: 90}, 200),
        ({0: 90, 1: 10}, 1000),
        ({0: 50}, 1000),
        ({0: 50, 1: 0}, 1000),
        ({0: 10, 1: 10, 2: 80}, 300),
        ({0: 10, 9: 90}, 1000),
        ({0: 10, 1: 30, 2: 0}, 500),
        ({0: 0, 1: 0}, 1000),
        ({0: 0, 1: 90}, 1),
    ],
    ids=str,
)
def test_streams_share_what_a_batch_took(records: dict[int, int], expected: int) -> None:
    steered = Steered(1, steered=(0, 1, 2))
    steered.sees(completed(records, took=1000))
    ((_, _, took, _),) = steered.estimator.asked
    assert took == expected
    # Stream 9 is not steered. The simulated plants share in the same way.
    counts = [count for stream, count in records.items() if stream != 9]
    assert took == attributed_ms(1000, records[0], sum(counts), sum(count > 0 for count in counts))


def test_it_loses_no_event_on_the_bus() -> None:
    steered = Steered(*range(1, 502))
    bus = ListenerBus(queue_size=1, max_failures=1)
    bus.add(steered.controller)
    for number in range(500):
        bus.post(completed(time=T + 1000 * number))
    bus.start()
    bus.stop(10)
    assert [rate for _, rate in steered.published] == list(range(1, 501))


class Context:
    """What `controllers` asks of a StreamingContext."""

    def __init__(self, *specs: RateEstimatorSpec, streams: tuple[int, ...] = (0, 1), **pairs: str) -> None:
        known = {spec.name: spec for spec in (*penstock_rate.rate_estimators(), *specs)}

        def spec(_hook: str, name: str) -> RateEstimatorSpec:
            if name not in known:
                raise UnknownNameError("rate estimator", name, known)
            return known[name]

        prefix = "spark.streaming.backpressure."
        self.settings = Settings.parse({f"{prefix}{name.replace('__', '.')}": value for name, value in pairs.items()})
        self.plugins = SimpleNamespace(spec=spec)
        self.graph = SimpleNamespace(
            receivers=lambda: [(stream, object()) for stream in streams], batch_interval_ms=1000
        )
        self.rates: list[tuple[int, float]] = []
        self.kept: dict[str, Callable[[], Any]] = {}
        #: In the checkpoint that the program goes on from.
        self.found: dict[str, Any] = {}

    def keep(self, name: str, value: Callable[[], Any]) -> Any:
        self.kept[name] = value
        return self.found.get(name)

    def set_rate(self, stream_id: int, rate: float) -> None:
        self.rates.append((stream_id, rate))

    def controllers(self) -> list[RateController]:
        return controllers(cast("StreamingContext", self))


@pytest.mark.parametrize("name", ["pid", "model"])
def test_a_run_that_goes_on_estimates_as_if_it_had_not_ended(name: str) -> None:
    def batch(number: int) -> BatchCompleted:
        return completed({0: 400 + 37 * (number % 5)}, time=T + 1000 * number, took=700 + 11 * (number % 7))

    whole = Context(enabled="true", rateEstimator=name, streams=(0,))
    (one,) = whole.controllers()
    for number in range(20):
        one.onBatchCompleted(batch(number))

    first = Context(enabled="true", rateEstimator=name, streams=(0,))
    (before,) = first.controllers()
    for number in range(12):
        before.onBatchCompleted(batch(number))
    second = Context(enabled="true", rateEstimator=name, streams=(0,))
    # As a checkpoint has it.
    second.found = json.loads(json.dumps({kept: value() for kept, value in first.kept.items()}))
    (after,) = second.controllers()
    assert second.rates == []  # the receiver has its rate already
    # A checkpoint before the first batch has it, too.
    assert {kept: value() for kept, value in second.kept.items()} == second.found
    for number in range(12, 20):
        after.onBatchCompleted(batch(number))
    assert [*first.rates, *second.rates] == whole.rates


@pytest.mark.parametrize("kept", [{"rate": "fast"}, [], 7, {"another": 1}])
def test_what_another_estimator_kept_is_left(kept: Any) -> None:
    context = Context(enabled="true", rateEstimator="model", streams=(0,))
    context.found = {"rate model 0": kept}
    (made,) = context.controllers()
    assert context.rates == [(0, 2)]
    made.onBatchCompleted(completed({0: 2}, took=10))


def test_without_backpressure_there_is_none() -> None:
    assert Context().controllers() == []
    assert Context(enabled="false").controllers() == []


def test_every_receiver_stream_has_its_own_estimator_and_they_know_of_each_other() -> None:
    one, other = Context(enabled="true").controllers()
    assert isinstance(one.estimator, PIDRateEstimator)
    assert one.estimator is not other.estimator
    one.onBatchCompleted(completed({0: 10, 1: 90}, took=1000))
    assert "50/s processed" in one.estimator.reason


def test_options_come_from_configuration() -> None:
    context = Context(enabled="true", rateEstimator="fixed", fixed__rate="42.5", streams=(3,))
    (made,) = context.controllers()
    assert isinstance(made.estimator, FixedRateEstimator)
    made.onBatchCompleted(completed({3: 1}))
    assert context.rates == [(3, 42.5), (3, 42.5)]


def test_what_an_estimator_begins_with_is_published_unless_the_program_says() -> None:
    context = Context(enabled="true", rateEstimator="model")
    context.controllers()
    assert context.rates == [(0, 2), (1, 2)]
    context = Context(enabled="true", rateEstimator="model", initialRate="7000")
    context.controllers()
    assert context.rates == []
    context = Context(enabled="true", rateEstimator="pid")
    context.controllers()
    assert context.rates == []


@pytest.mark.parametrize("max_rate", ["0", "3000"])
def test_model_knows_of_the_first_rate_that_the_program_chose(max_rate: str) -> None:
    context = Context(enabled="true", rateEstimator="model", initialRate="7000", streams=(0,))
    context.settings = Settings.parse(
        {**context.settings.with_prefix(""), "spark.streaming.receiver.maxRate": max_rate}
    )
    (controller,) = context.controllers()
    # The input was the limit: what is in force stays.
    controller.onBatchCompleted(completed(10, took=50))
    ((_, rate),) = context.rates
    assert rate == (3000 if max_rate == "3000" else 7000)


def test_a_first_rate_that_is_no_limit_leaves_it_to_the_estimator() -> None:
    context = Context(enabled="true", rateEstimator="model", initialRate="0", streams=(0,))
    context.controllers()
    assert context.rates == [(0, 2)]


def test_an_unknown_estimator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'pit'. Did you mean 'pid'\? Known: fixed, model, pid\."):
        Context(enabled="true", rateEstimator="pit").controllers()


@pytest.mark.parametrize(
    ("estimator", "option", "value"), [("pid", "minRate", "0"), ("model", "share", "2"), ("fixed", "rate", "-1")]
)
def test_options_that_cannot_be_used_are_refused(estimator: str, option: str, value: str) -> None:
    pairs: Any = {f"{estimator}__{option}": value}
    with pytest.raises(ConfigurationError, match=option):
        Context(enabled="true", rateEstimator=estimator, **pairs).controllers()


@pytest.mark.parametrize(
    ("factory", "error", "words"),
    [
        (lambda _options, _interval: dict[str, int]()["lid"], PluginError, "'odd' cannot be made: KeyError"),
        (lambda _options, _interval: int("x"), ConfigurationError, "'odd': invalid literal"),
        (lambda _options, _interval: object(), PluginError, "a object without compute"),
    ],
)
def test_an_estimator_that_cannot_be_made_is_refused(factory: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Context(RateEstimatorSpec("odd", factory), enabled="true", rateEstimator="odd").controllers()
