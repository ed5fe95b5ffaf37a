"""``GuardedEstimator``: wraps a plugin's rate estimator, contains its errors and rejects invalid rates.

Used the same way by a running program and by the simulation. It publishes nothing and logs nothing itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, TypeVar

import attrs

from penstock.conf import Settings
from penstock.errors import ConfigurationError, PluginError, shown, summary_of, text_of
from penstock.json_converter import structure, unstructure
from penstock.plugins.discovery import Plugins
from penstock.plugins.specs import RateEstimator, RateEstimatorSpec
from penstock.runtime.tracebacks import raised_at

T = TypeVar("T")


class GuardedEstimator(RateEstimator):
    """A rate estimator that never raises and answers with a finite rate above zero, or ``None``.

    ``compute`` runs on the caller's thread, ``saved_state`` on any. ``on_fault`` gets a description of each error and
    each rejected rate.

    Attributes:
        estimator: the wrapped one.
        initial_rate: the program's first rate or else the estimator's; ``None`` after ``restore``: a recovered
            receiver has its rate already.
        refused: answers that were not a finite number above zero.
        failed: errors that the estimator raised, states that cannot be saved included.
    """

    def __init__(self, estimator: RateEstimator, on_fault: Callable[[str], object] = lambda _fault: None) -> None:
        self.estimator = estimator
        self._on_fault = on_fault
        self.refused = 0
        self.failed = 0
        self._saved: Any = None
        self.initial_rate = _rate(self._guarded(lambda: estimator.initial_rate, None))

    @classmethod
    def installed(
        cls,
        name: str,
        interval_ms: int,
        conf: Mapping[str, str] | Settings | None = None,
        *,
        plugins: Plugins | None = None,
        on_fault: Callable[[str], object] = lambda _fault: None,
        **options: Any,
    ) -> GuardedEstimator:
        """Create the rate estimator that an installed plugin offers under a name, guarded, for a batch interval.

        Configuration by full key: ``spark.streaming.backpressure.<name>.<option>`` sets what ``options`` does not, and
        ``spark.streaming.backpressure.initialRate`` the first rate. Without ``plugins``, all installed ones are loaded.

        Raises:
            UnknownNameError: no plugin offers the name, or an option does not exist; names the nearest.
            ConfigurationError: an option is missing or its value is invalid.
            PluginError: the estimator cannot be created.
        """
        settings = conf if isinstance(conf, Settings) else Settings.parse(conf or {})
        plugins = plugins or Plugins(settings.plugins_disable, prefer=settings.plugins_prefer)
        spec: RateEstimatorSpec = plugins.spec("rate_estimators", name)
        values = spec.read_options(options, settings)
        try:
            estimator = spec.factory(values, interval_ms)
        except ValueError as error:
            raise ConfigurationError(f"rate estimator {name!r}: {text_of(error)}") from error
        except Exception as error:
            raise PluginError(f"rate estimator {name!r} cannot be created: {summary_of(error)}") from error
        if not isinstance(estimator, RateEstimator):
            raise PluginError(
                f"rate estimator {name!r}: its factory returned an instance of {type(estimator).__qualname__}, which "
                "does not derive from penstock.RateEstimator: derive the class from it"
            )
        guarded = cls(estimator, on_fault)
        if settings.first_rate_per_s is not None:
            guarded.begin_with(settings.first_rate_per_s)
        return guarded

    def begin_with(self, rate: float) -> None:
        self.initial_rate = rate
        self._guarded(lambda: self.estimator.begin_with(rate), None)

    def saved_state(self) -> Any:
        """The estimator's state after its last batch, as JSON values; ``None`` when it has none."""
        return self._saved

    def restore(self, saved: Any) -> bool:
        """Give the estimator the state that an earlier run saved, before the first batch; return whether it accepts it.

        An estimator without a state, or with one of another kind, starts afresh.
        """
        return saved is not None and self._guarded(lambda: self._restore(saved), False)

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        failed = self.failed
        answer = self._guarded(
            lambda: self.estimator.compute(time, numElements, processingDelay, schedulingDelay), None
        )
        if self.failed > failed:
            return None
        self.reason = self._guarded(lambda: str(self.estimator.reason), "")
        self._saved = self._guarded(self._state, self._saved)
        rate = _rate(answer)
        if answer is not None and rate is None:
            self.refused += 1
            self._on_fault(f"not a finite rate above zero: {shown(answer)}")
        return rate

    def _restore(self, saved: Any) -> bool:
        kind = type(self.estimator.state)
        if not attrs.has(kind):
            return False
        self.estimator.state = structure(saved, kind)
        self._saved = saved
        self.initial_rate = None
        return True

    def _state(self) -> Any:
        state = self.estimator.state
        if not attrs.has(type(state)):
            return None
        saved = unstructure(state)
        json.dumps(saved)  # a value that JSON cannot hold would fail every checkpoint
        return saved

    def _guarded(self, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:
            self.failed += 1
            self._on_fault(f"{summary_of(error)} ({raised_at(error)})")
            return otherwise


def _rate(answer: object) -> float | None:
    """A finite number above zero; text and truth values are rejected even where they convert to one."""
    if not isinstance(answer, Real) or isinstance(answer, bool):
        return None
    try:
        rate = float(answer)
    except Exception:  # a third party's number type
        return None
    return rate if math.isfinite(rate) and rate > 0 else None
