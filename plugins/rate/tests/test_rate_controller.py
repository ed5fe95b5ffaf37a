"""``RateController`` selects batches, asks the estimator and publishes its rates."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from penstock import BatchCompleted, BatchInfo, RateEstimator
from penstock_rate import FixedOptions, FixedRateEstimator, PIDOptions, PIDRateEstimator, RateController, listeners
from penstock_testing import FakeListenerContext, batch_info

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
    return BatchCompleted(
        batch_info(
            time,
            records=records,
            submission_delay=late,
            schedulingDelay=waited,
            processingDelay=took,
            failureReason=failure,
            outputs=2,
        )
    )


class Scripted(RateEstimator):
    """Gives its answers one after the other, the last one again and again."""

    def __init__(self, *answers: float | None) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[int, int, int, int]] = []

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        self.asked.append((time, numElements, processingDelay, schedulingDelay))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.reason = f"said {answer}"
        return answer


class Context(FakeListenerContext):
    """A program with some receiver streams and an estimator for each, which is charged whole batches."""

    def __init__(
        self, estimators: Mapping[int, RateEstimator | None], limits: Mapping[int, float] | None = None
    ) -> None:
        super().__init__(streams=list(estimators))
        self.estimators = estimators
        self.limits = dict(limits or {})

    @property
    def rates(self) -> list[tuple[int, float]]:
        """The rates that were set, with their streams."""
        return [(stream_id, rate) for _, stream_id, rate in self.commands]

    def rate_estimator(self, stream_id: int) -> RateEstimator | None:
        return self.estimators[stream_id]

    def attributed_delay(self, stream_id: int, batch: BatchInfo) -> int | None:
        return batch.processingDelay


class Steered:
    """A controller and the rates that it set."""

    def __init__(self, *answers: float | None) -> None:
        self.estimator = Scripted(*answers)
        self.context = Context({0: self.estimator})
        self.controller = RateController(self.context, 0, self.estimator)

    def sees(self, *batches: BatchCompleted) -> list[float]:
        for batch in batches:
            self.controller.onBatchCompleted(batch)
        return [rate for _, rate in self.context.rates]


def test_estimates_are_published_unchanged() -> None:
    steered = Steered(100, 200.5, 0.25)
    assert steered.sees(completed(), completed(time=T + 1), completed(time=T + 2)) == [100, 200.5, 0.25]
    assert steered.context.rates[0] == (0, 100)


def test_scheduling_delay_counts_from_the_batch_time() -> None:
    steered = Steered(1)
    steered.sees(completed(late=30, waited=5, took=20))
    assert steered.estimator.asked == [(T + 55, 100, 20, 35)]


def test_processing_delay_is_the_part_attributed_to_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    steered = Steered(1)
    monkeypatch.setattr(steered.context, "attributed_delay", lambda stream_id, batch: 7 + stream_id)
    steered.sees(completed(took=20))
    assert steered.estimator.asked == [(T + 20, 100, 7, 0)]


def test_no_estimate_publishes_nothing() -> None:
    assert Steered(None).sees(completed()) == []


def test_failed_batch_is_ignored() -> None:
    steered = Steered(1)
    assert steered.sees(completed(failure="Traceback: no")) == []
    assert steered.estimator.asked == []


def test_batch_without_the_stream_or_its_times_is_ignored() -> None:
    steered = Steered(1)
    running = batch_info(T, records=1, processingDelay=None)
    waiting = batch_info(T, records=1, schedulingDelay=None)
    assert steered.sees(completed({7: 100}), BatchCompleted(running), BatchCompleted(waiting)) == []
    assert steered.estimator.asked == []


def test_batch_without_records_does_not_lower_the_rate() -> None:
    steered = Steered(500, 100, 600)
    batches = [completed(), completed(0, time=T + 1000), completed(0, time=T + 2000)]
    assert steered.sees(*batches) == [500, 600]


@pytest.mark.parametrize("back_ms", [500, 2000, 3_600_000])
def test_clock_set_back_makes_no_batch_early(back_ms: int) -> None:
    estimator = PIDRateEstimator(PIDOptions(), 1000)
    context = Context({0: estimator})
    controller = RateController(context, 0, estimator)
    for number in range(30):
        controller.onBatchCompleted(completed(900, time=T + 1000 * number, took=900))
    controller.onBatchCompleted(completed(900, time=T + 30_000 + back_ms, waited=-back_ms, took=900))
    assert context.rates == [(0, 1000.0)] * 30


def test_rate_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "penstock"):
        Steered(100).sees(completed())
    assert "rate=100" in caplog.text
    assert "reason='said 100'" in caplog.text


def test_last_rate_is_the_last_that_was_published() -> None:
    steered = Steered(None, 3, None)
    assert steered.controller.last_rate is None
    steered.sees(*[completed(time=T + 1000 * number) for number in range(3)])
    assert steered.controller.last_rate == 3


def test_listener_bus_drops_none_of_its_events() -> None:
    assert RateController.never_drop  # what the bus goes by: tests/listen


def test_every_receiver_stream_gets_a_controller() -> None:
    estimators = {stream: Scripted(1) for stream in (3, 5)}
    context = Context(estimators)
    one, other = listeners(context)
    for made in (one, other):
        made.onBatchCompleted(completed({3: 10, 5: 20}))
    assert [estimators[3].asked[0][1], estimators[5].asked[0][1]] == [10, 20]
    assert context.rates == [(3, 1), (5, 1)]


def test_without_backpressure_there_are_no_controllers() -> None:
    assert listeners(Context({0: None, 1: None})) == []


def test_initial_rate_is_set_unless_it_is_in_force() -> None:
    fixed = FixedRateEstimator(FixedOptions(rate=42.5), 1000)
    context = Context({0: fixed, 1: fixed, 2: Scripted(1)}, limits={1: 42.5})
    listeners(context)
    assert context.rates == [(0, 42.5)]
