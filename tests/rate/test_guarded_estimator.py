"""GuardedEstimator: errors of a third-party estimator are contained, invalid rates rejected, its state saved."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define

from penstock import RateEstimator, RateEstimatorSpec
from penstock.errors import ConfigurationError, PluginError
from penstock.plugins.discovery import Plugins
from penstock.rate.guarded_estimator import GuardedEstimator


@define
class Seen:
    batches: int = 0


class Scripted(RateEstimator):
    """Gives its answers one after the other, the last one again and again; raises those that are errors."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.state = Seen()

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        self.state.batches += 1
        self.reason = f"said {answer}"
        rate: float | None = answer
        return rate


def computed(guarded: GuardedEstimator, batches: int) -> list[float | None]:
    return [guarded.compute(1000 * number, 100, 500, 0) for number in range(1, batches + 1)]


@pytest.mark.parametrize(
    "invalid",
    [math.nan, math.inf, -math.inf, 0, -1.0, "many", "250", b"12", True, [1], 10**400],
    ids=lambda invalid: f"{invalid!r:.10}",
)
def test_invalid_rate_is_rejected_counted_and_reported(invalid: Any) -> None:
    faults: list[str] = []
    guarded = GuardedEstimator(Scripted(100, invalid, 200), faults.append)
    assert computed(guarded, 3) == [100, None, 200]
    assert (guarded.refused, guarded.failed) == (1, 0)
    (fault,) = faults
    assert fault.startswith("not a finite rate above zero: ")


def test_invalid_rate_that_cannot_be_shown_is_reported_by_its_type() -> None:
    class Unspeakable:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    class Silent(RateEstimator):
        def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> Any:
            return Unspeakable()

    faults: list[str] = []
    assert computed(GuardedEstimator(Silent(), faults.append), 1) == [None]
    assert faults == ["not a finite rate above zero: an instance of Unspeakable"]


def test_error_is_contained_counted_and_reported() -> None:
    faults: list[str] = []
    guarded = GuardedEstimator(Scripted(100, ZeroDivisionError("by records"), 200), faults.append)
    assert computed(guarded, 3) == [100, None, 200]
    assert (guarded.refused, guarded.failed) == (0, 1)
    (fault,) = faults
    assert re.fullmatch(r"ZeroDivisionError: by records \(test_guarded_estimator\.py:\d+ in compute\)", fault)


def test_reason_is_the_estimators() -> None:
    guarded = GuardedEstimator(Scripted(7))
    computed(guarded, 1)
    assert guarded.reason == "said 7"


@pytest.mark.parametrize("initial", [None, 0, -1, math.nan, "ten"])
def test_invalid_initial_rate_is_none(initial: Any) -> None:
    estimator = Scripted(1)
    estimator.initial_rate = initial
    assert GuardedEstimator(estimator).initial_rate is None


def test_configured_first_rate_replaces_the_estimators() -> None:
    class Told(Scripted):
        initial_rate = 5.0
        told = 0.0

        def begin_with(self, rate: float) -> None:
            self.told = rate

    estimator = Told(1)
    guarded = GuardedEstimator(estimator)
    assert guarded.initial_rate == 5
    guarded.begin_with(70)
    assert (guarded.initial_rate, estimator.told) == (70, 70)


def test_restored_estimator_continues_and_has_no_initial_rate() -> None:
    before, after = GuardedEstimator(Scripted(1)), GuardedEstimator(Scripted(1))
    computed(before, 3)
    saved = json.loads(json.dumps(before.saved_state()))
    assert saved == {"batches": 3}
    assert after.restore(saved)
    assert after.saved_state() == saved  # a checkpoint before the first batch has it, too
    assert after.initial_rate is None
    computed(after, 2)
    assert after.saved_state() == {"batches": 5}


@pytest.mark.parametrize("saved", [None, {"batches": "three"}, 7])
def test_state_of_another_kind_is_rejected(saved: Any) -> None:
    guarded = GuardedEstimator(Scripted(3))
    assert not guarded.restore(saved)
    assert computed(guarded, 1) == [3]


def test_estimator_without_state_saves_none() -> None:
    class Constant(RateEstimator):
        def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
            return 3.0

    guarded = GuardedEstimator(Constant())
    assert computed(guarded, 1) == [3]
    assert guarded.saved_state() is None
    assert not guarded.restore({"batches": 1})


@define
class Unsaveable:
    counts: set[int]


def broken() -> Any:
    raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("state", "reason"),
    [(lambda: Unsaveable({1}), str), (broken, str), (lambda: Seen(1), broken)],
    ids=["state is not JSON", "state raises", "reason raises"],
)
def test_broken_state_or_reason_stops_neither_rates_nor_checkpoints(
    state: Callable[[], Any], reason: Callable[[], str]
) -> None:
    class Breaking(RateEstimator):
        batches = 0

        def __getattribute__(self, name: str) -> Any:
            if name in {"state", "reason"} and self.batches:
                good: Any = Seen(1) if name == "state" else "good"
                return good if self.batches < 2 else {"state": state, "reason": reason}[name]()
            return super().__getattribute__(name)

        def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
            self.batches += 1
            return 100.0 + self.batches

    guarded = GuardedEstimator(Breaking())
    assert computed(guarded, 20) == [100.0 + number for number in range(1, 21)]
    assert (guarded.refused, guarded.failed) == (0, 19)
    assert guarded.saved_state() == {"batches": 1}


class Only(Plugins):
    """One rate estimator, of no plugin."""

    def __init__(self, spec: RateEstimatorSpec) -> None:
        self._offered = spec

    def spec(self, hook: str, name: str, key: str = "") -> RateEstimatorSpec:
        return self._offered


class ComputesOnly:
    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        return 1.0


@pytest.mark.parametrize(
    ("factory", "error", "words"),
    [
        (lambda _options, _interval: dict[str, int]()["lid"], PluginError, "'odd' cannot be created: KeyError"),
        (lambda _options, _interval: int("x"), ConfigurationError, "'odd': invalid literal"),
        (lambda _options, _interval: object(), PluginError, "an instance of object, .* derive from penstock.RateEst"),
        (lambda _options, _interval: ComputesOnly(), PluginError, "of ComputesOnly, which does not derive from"),
    ],
)
def test_factory_that_fails_or_returns_no_rate_estimator_is_an_error(
    factory: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        GuardedEstimator.installed("odd", 1000, plugins=Only(RateEstimatorSpec("odd", factory)))
