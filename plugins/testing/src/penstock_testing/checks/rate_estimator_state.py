"""Rate estimator checks RE-19, RE-20, RE-22 and RE-23: an estimator's state, sources of input, and cost."""

from __future__ import annotations

import datetime
import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import attrs

from penstock import RateEstimator
from penstock.spi import GuardedEstimator, unstructure
from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.checks.rate_estimator import START_MS, Batch, plausible_batches
from penstock_testing.leaks import MOST_GROWTH, memory_growth
from penstock_testing.rate_estimator_subject import RateEstimatorSubject

_CLOCKS = {
    getattr(time, name)
    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time")
}
_NOW = {"now", "utcnow", "today"}
# Logging reads the clock for its time stamps, which changes no rate.
_LOGGING = ("logging", "structlog", "penstock.runtime.log")
# The limit of the mean CPU seconds of one call.
_MOST_CPU_S = 0.001


# Batches to fill windows and caches, and again to measure.
_MEMORY_BATCHES = 2000


def answers(subject: RateEstimatorSubject, estimator: RateEstimator, batches: Sequence[Batch]) -> list[float | None]:
    """An estimator's answers to batches."""
    return [subject.ask(estimator, batch) for batch in batches]


class RateEstimatorStateChecks:
    """The checks of this module, as test methods."""

    @check("RE-19", "must", change="use the arguments and the estimator's state alone; the time is an argument")
    def test_RE_19_deterministic(self, subject: RateEstimatorSubject) -> None:
        """Equal batches give equal answers: an estimator reads no clock and no random source.

        Purpose: a run can be repeated, simulated and recovered.
        Condition: all answers are equal, and no call was recorded.
        """
        batches = plausible_batches(subject, 40)
        first, second = subject.make(), subject.make()
        was = random.getstate()
        subject.on_close(lambda: random.setstate(was))
        random.seed(1)
        expected = answers(subject, first, batches)
        random.seed(2)
        seen: list[float | None] = []
        calls = _recorded(lambda: seen.extend(answers(subject, second, batches)))
        for number, (one, other) in enumerate(zip(expected, seen, strict=True), 1):
            if one != other:
                fail(
                    f"for batch {number} compute returned {one} in one run, {other} in the next",
                    f"compute{batches[number - 1]}",
                )
        if calls:
            fail(f"compute calls {', '.join(sorted(set(calls)))}", f"compute{batches[0]}")

    @check("RE-20", "must", change="hold everything that compute remembers in state, an attrs instance of JSON values")
    def test_RE_20_state_round_trips(self, subject: RateEstimatorSubject) -> None:
        """An estimator restored from its saved state answers as if there had been no restart.

        Purpose: a driver that recovers from a checkpoint continues with the learned rate.
        Condition: the new estimator accepts the state; all answers and the states after them are equal.
        """
        if not subject.capabilities.restores:
            if attrs.has(type(subject.make().state)):
                fail(
                    "the estimator has a state that checkpoints save, but Capabilities.restores is not set",
                    change="declare Capabilities(restores=True)",
                )
            raise NotApplicable("Capabilities.restores is not set")
        batches = plausible_batches(subject, 36)
        for restart in range(1, 31):
            estimator = GuardedEstimator(subject.make())
            answers(subject, estimator, batches[:restart])
            saved = json.loads(json.dumps(estimator.saved_state()))
            if saved is None:
                fail(
                    f"after {restart} batches state is a {type(estimator.estimator.state).__name__}, not an attrs "
                    "instance that a checkpoint can save"
                )
            restored = GuardedEstimator(subject.make())
            if not restored.restore(saved):
                fail(f"a new estimator does not accept the state that was saved after {restart} batches", saved)
            for batch in batches[restart : restart + 5]:
                expected, seen = subject.ask(estimator, batch), subject.ask(restored, batch)
                if expected != seen:
                    fail(
                        f"compute returned {seen} after a restart, {expected} without a restart",
                        f"restart after batch {restart}, state {saved}",
                    )
            if estimator.saved_state() != restored.saved_state():
                fail(
                    f"the state is {restored.saved_state()} after a restart, {estimator.saved_state()} without one",
                    f"restart after batch {restart}",
                )

    @check("RE-22", "should", change="do constant work for each batch; open no file, start no thread, print nothing")
    def test_RE_22_cheap_and_pure(self, subject: RateEstimatorSubject) -> None:
        """A call of compute is cheap and without side effects, and memory and state stay small.

        Purpose: one thread calls compute for each stream and batch, and each checkpoint saves the state.
        Condition: a call takes at most 1 ms of CPU on average, so that 1,000 streams fill one core at an interval of 1
            s. The state's length after 1,000 batches is at most 1.5 times that after 500, plus 1 kB. No thread is
            started, no descriptor stays open, the global state is unchanged, and nothing is printed. The last 2,000
            batches add at most 16 bytes each.
        """
        estimator = subject.make()
        batches = plausible_batches(subject, 1000)
        was = random.getstate()
        answers(subject, estimator, batches[:500])
        half = _state_length(estimator)
        began = time.thread_time()
        answers(subject, estimator, batches[500:600])
        cpu_s = (time.thread_time() - began) / 100
        if cpu_s > subject.deadline_s(_MOST_CPU_S):
            fail(
                f"a call of compute takes {cpu_s * 1000:.3g} ms of CPU on average, and "
                f"{subject.deadline_s(_MOST_CPU_S) * 1000:g} ms are permitted",
                "batches 501 to 600",
            )
        answers(subject, estimator, batches[600:])
        if (length := _state_length(estimator)) > 1.5 * half + 1000:
            fail(f"the saved state has {half} characters after 500 batches, {length} after 1,000")
        changes = ["the random module's state changed"] if random.getstate() != was else []
        if changes := changes + subject.leaks(0):
            fail(f"compute has side effects: {'; '.join(changes)}", f"compute{batches[0]}, and 999 more")
        _check_memory(subject)

    @check("RE-23", "must", change="hold state in attributes of the instance, not of the class or the module")
    def test_RE_23_instances_do_not_share(self, subject: RateEstimatorSubject) -> None:
        """An estimator's answers do not depend on the batches of another instance.

        Purpose: each receiver stream has its own estimator; a slow stream must not change the rate of a fast one.
        Condition: the answers to the same batches are equal.
        """
        batches = plausible_batches(subject, 20)
        alone = answers(subject, subject.make(), batches)
        first, second = subject.make(), subject.make()
        for number, batch in enumerate(batches):
            other = (START_MS + number * 1000 + 990, 7 + number, 900, 50)
            subject.ask(second, other)
            if (seen := subject.ask(first, batch)) != alone[number]:
                fail(
                    f"for batch {number + 1} compute returned {seen} beside another estimator, {alone[number]} alone",
                    f"compute{other} of the other, then compute{batch}",
                )


def _recorded(function: Callable[[], object]) -> list[str]:
    """Call a function; return the names of the clocks and shared random sources that it reads on this thread."""
    calls: list[str] = []

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or str(frame.f_globals.get("__name__", "")).startswith(_LOGGING):
            return
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        is_now = isinstance(owner, type) and issubclass(owner, datetime.date) and name in _NOW
        is_random = called is os.urandom or owner is random._inst  # the shared one
        if called in _CLOCKS or is_now or is_random:
            calls.append(f"{getattr(owner, '__name__', type(owner).__name__)}.{name}")

    was, collects = sys.getprofile(), gc.isenabled()
    # Callbacks of a collection run on this thread, and may read a clock: those of Hypothesis do.
    gc.disable()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(was)
        if collects:
            gc.enable()
    return calls


def _check_memory(subject: RateEstimatorSubject) -> None:
    estimator = subject.make()

    def ask(first: int) -> None:
        # Generated one by one, so that only the memory that an estimator retains counts.
        for number in range(first, first + _MEMORY_BATCHES):
            took = subject.rng.randrange(300, 900)
            subject.ask(estimator, (START_MS + number * 1000 + took, subject.rng.randrange(500, 1500), took, 0))

    growth = memory_growth(lambda: ask(0), lambda: ask(_MEMORY_BATCHES), MOST_GROWTH)
    if growth > MOST_GROWTH:
        fail(
            f"{_MEMORY_BATCHES} batches add {growth} bytes of memory, and {MOST_GROWTH} are permitted",
            f"{2 * _MEMORY_BATCHES} batches",
            "keep a fixed number of values, such as averages or a window of limited length",
        )


def _state_length(estimator: RateEstimator) -> int:
    state = estimator.state
    return len(json.dumps(unstructure(state), default=str)) if attrs.has(type(state)) else 0
