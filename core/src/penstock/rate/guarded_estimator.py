"""``GuardedEstimator``: a rate estimator that nobody vouches for, made, asked, and survived.

Owns the checks of what an estimator says and the counts of what was wrong with it, the same in a program and on a
simulated plant. Never publishes a rate and never logs: ``fault`` says what to tell. Runs on the thread of whoever calls
it; ``kept`` may be read from any.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeVar

import attrs
import cattrs

from penstock.conf import Settings
from penstock.errors import ConfigurationError, PluginError, text_of
from penstock.plugins.specs import RateEstimator, RateEstimatorSpec

T = TypeVar("T")


class GuardedEstimator:
    """Ask an estimator, and answer with a rate or nothing, whatever it does.

    Args:
        estimator: the one that is asked.

    Attributes:
        estimator: see there.
        reason: of the last answer, in the estimator's words; empty when it gives none.
        fault: what was wrong in the last call; empty for nothing.
        refused: answers that were no rate: not a finite number above zero.
        failed: errors that the estimator raised, and states that cannot be kept.
    """

    def __init__(self, estimator: RateEstimator) -> None:
        self.estimator, self.reason, self.fault = estimator, "", ""
        self.refused = self.failed = 0
        self._chosen: float | None = None
        self._kept: Any = None

    @property
    def initial_rate(self) -> float | None:
        """The rate to begin with, records/s: the program's, or else the estimator's; ``None`` for no limit."""
        if self._chosen is not None:
            return self._chosen
        return _rate(self._guarded(lambda: getattr(self.estimator, "initial_rate", None), None))

    def begin_with(self, rate: float) -> None:
        """Begin with a rate that the program chose, records/s; an estimator that has ``begin_with`` is told."""
        self._chosen = rate
        self._guarded(lambda: getattr(self.estimator, "begin_with", _nothing)(rate), None)

    def kept(self) -> Any:
        """What the estimator remembers, as JSON values; ``None`` when it has no ``state`` of attrs. On any thread."""
        return self._kept

    def go_on_from(self, kept: Any) -> bool:
        """Have the estimator remember what another did; say whether it does. Before the first batch."""
        self.fault = ""
        return kept is not None and self._guarded(lambda: self._restore(kept), False)

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """The rate, records/s; ``None`` for none, or for an answer that is none."""
        self.fault, failed = "", self.failed
        answer = self._guarded(
            lambda: self.estimator.compute(time, numElements, processingDelay, schedulingDelay), None
        )
        if self.failed > failed:
            return None
        self.reason = self._guarded(lambda: str(getattr(self.estimator, "reason", "")), "")
        self._kept = self._guarded(self._remembered, self._kept)
        rate = None if answer is None else _rate(answer)
        if answer is not None and rate is None:
            self.refused += 1
            self.fault = f"its answer is no rate: {_shown(answer)}"
        return rate

    def _restore(self, kept: Any) -> bool:
        state = getattr(self.estimator, "state", None)
        if not attrs.has(type(state)):
            return False
        self.estimator.state = cattrs.structure(kept, type(state))  # type: ignore[attr-defined]  # it has one
        self._kept = kept
        return True

    def _remembered(self) -> Any:
        state = getattr(self.estimator, "state", None)
        if not attrs.has(type(state)):
            return None
        kept = cattrs.unstructure(state)
        # What JSON does not know would fail every checkpoint.
        json.dumps(kept)
        return kept

    def _guarded(self, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:
            self.failed += 1
            self.fault = f"it failed: {type(error).__name__}: {text_of(error)}"
            return otherwise


def make_estimator(spec: RateEstimatorSpec, options: Any, interval_ms: int) -> GuardedEstimator:
    """Make an estimator.

    Raises:
        ConfigurationError: its factory refuses the options.
        PluginError: what the factory makes is no estimator, or it makes none.
    """
    try:
        estimator = spec.factory(options, interval_ms)
        is_one = isinstance(estimator, RateEstimator)
    except ValueError as error:
        raise ConfigurationError(f"rate estimator {spec.name!r}: {text_of(error)}") from error
    except Exception as error:
        raise PluginError(
            f"rate estimator {spec.name!r} cannot be made: {type(error).__name__}: {text_of(error)}"
        ) from error
    if not is_one:
        raise PluginError(
            f"rate estimator {spec.name!r}: its factory made a {type(estimator).__name__} without compute"
        )
    return GuardedEstimator(estimator)


def guarded(estimator: RateEstimator | GuardedEstimator) -> GuardedEstimator:
    """Guard an estimator that is not yet."""
    return estimator if isinstance(estimator, GuardedEstimator) else GuardedEstimator(estimator)


def chosen_first_rate(settings: Settings) -> float | None:
    """The rate that the program chose to begin with, records/s; ``None`` when that is left to the estimator."""
    if not settings.is_set("initial_rate_per_s"):
        return None
    rate = min(settings.initial_rate_per_s, settings.max_rate_per_s)
    return rate if math.isfinite(rate) else None


def _rate(answer: object) -> float | None:
    """A finite number above zero; texts and truth values are none, though they could be made one."""
    if not isinstance(answer, Real) or isinstance(answer, bool):
        return None
    try:
        rate = float(answer)
    except Exception:  # whose type it is, is anybody's
        return None
    return rate if math.isfinite(rate) and rate > 0 else None


def _shown(answer: object) -> str:
    try:
        return repr(answer)[:100]
    except Exception:
        return f"a {type(answer).__name__}"


def _nothing(_rate: float) -> None:
    """What an estimator without ``begin_with`` does about it."""
