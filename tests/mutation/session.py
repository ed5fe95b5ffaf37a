"""A pytest session that runs its tests once for each mutant, in forks of the process that has collected them."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

import pytest
from attrs import define, field, frozen
from tests.mutation.equivalents import is_equivalent
from tests.mutation.forks import Send, in_forks
from tests.mutation.mutations import Mutant

#: ``timeout`` counts as killed; no test runs the statement of an ``untested`` mutant; an ``equivalent`` is not tested.
Verdict = Literal["killed", "timeout", "survived", "untested", "equivalent"]
# A mutant's test may take this many times as long as before, and so many seconds longer.
_SLOWER, _LONGER_S = 5, 10.0
_BASELINE_S = 600.0


@frozen
class Baseline:
    """The tests without a mutant: by index of the test, the lines of the modules that it runs, and seconds."""

    lines: Mapping[int, frozenset[tuple[str, int]]]
    seconds: Mapping[int, float]

    def tests_of(self, mutant: Mutant) -> list[int]:
        """The tests that run the statement of a mutant, the fastest first."""
        wanted = {(mutant.module, line) for line in mutant.lines}
        return sorted((test for test, ran in self.lines.items() if ran & wanted), key=self.seconds.__getitem__)


@define
class MutationSession:
    """A pytest plugin: collects tests, runs them once without a mutant, and then for each mutant those that run it.

    Attributes:
        mutants: what to test.
        jobs: number of forks that run at the same time.
        end_s: monotonic time after which no further mutant is tested.
        on_verdict: called for each mutant with its verdict and the name of the test that killed it.
        failing: names of tests that fail without a mutant; they are left out.
    """

    mutants: Sequence[Mutant]
    jobs: int
    end_s: float
    on_verdict: Callable[[Mutant, Verdict, str], None]
    failing: list[str] = field(factory=list)
    # By function, how many of its mutants each test killed: the tests that are likely to kill the next one.
    _kills: defaultdict[str, Counter[int]] = field(factory=lambda: defaultdict(Counter))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests in forks instead of here."""
        # The verdicts are the output.
        session.config.pluginmanager.unregister(name="terminalreporter")
        modules = {mutant.module for mutant in self.mutants}
        for module in modules:
            importlib.import_module(module)
        baseline = self._baseline(session, modules)
        forks = in_forks(
            self._tested(baseline),
            partial(_run_mutant, session),
            lambda test: _LONGER_S + (0 if test is None else _SLOWER * baseline.seconds[test]),
            self.jobs,
        )
        for (mutant, _tests), ran, in_time in forks:
            if not ran:
                raise RuntimeError(f"no test was run, because the function could not be replaced: {mutant}")
            if in_time and ran[-1] is None:
                self.on_verdict(mutant, "survived", "")
            else:
                # The process ended in its last test, or is still running it.
                test = ran[-1]
                self._kills[mutant.function][test] += 1
                self.on_verdict(mutant, "killed" if in_time else "timeout", session.items[test].nodeid)
        return True

    def _tested(self, baseline: Baseline) -> Iterator[tuple[Mutant, list[int]]]:
        """The mutants with the tests that run them; gives the verdict of each that needs no test."""
        for mutant in self.mutants:
            if time.monotonic() > self.end_s:
                return
            if is_equivalent(mutant):
                self.on_verdict(mutant, "equivalent", "")
            elif tests := baseline.tests_of(mutant):
                # Sorting keeps the fastest first among equals.
                yield mutant, sorted(tests, key=lambda test: -self._kills[mutant.function][test])
            else:
                self.on_verdict(mutant, "untested", "")

    def _baseline(self, session: pytest.Session, modules: set[str]) -> Baseline:
        shares = [range(share, len(session.items), self.jobs) for share in range(self.jobs)]
        forks = in_forks(shares, partial(_run_baseline, session, modules), lambda _test: _BASELINE_S, self.jobs)
        lines, seconds = {}, {}
        for _share, ran, _in_time in forks:
            for test, of_test, seconds_of_test in ran:
                if of_test is not None:
                    lines[test] = frozenset(map(tuple, of_test))
                    seconds[test] = seconds_of_test
        self.failing += [item.nodeid for test, item in enumerate(session.items) if test not in lines]
        return Baseline(lines, seconds)


def _run_baseline(session: pytest.Session, modules: set[str], share: Iterable[int], send: Send) -> None:
    files = {str(Path(sys.modules[module].__file__ or "")): module for module in modules}
    ran: set[tuple[str, int]] = set()

    def note_calls(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        module = files.get(frame.f_code.co_filename)
        if module is None:
            return None

        def note_lines(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
            if event == "line":
                ran.add((module, frame.f_lineno))
            return note_lines

        return note_lines

    # Imported here, because pytest wants to rewrite the assertions of what it imports.
    from tests.helpers.measured import trace_flight_threads

    trace_flight_threads()
    threading.settrace(note_calls)
    for test in share:
        # Each time, because an error in the function ends the trace: a test may exhaust the stack.
        sys.settrace(note_calls)
        ran.clear()
        began = time.monotonic()
        failed = _fails(session, session.items[test])
        send((test, None if failed else sorted(ran.copy()), time.monotonic() - began))


def _run_mutant(session: pytest.Session, task: tuple[Mutant, list[int]], send: Send) -> None:
    """Run the tests of a mutant until one fails; send each before it runs, and ``None`` when none has failed."""
    mutant, tests = task
    replace(mutant)
    for test in tests:
        send(test)
        if _fails(session, session.items[test]):
            return
    send(None)


def _fails(session: pytest.Session, item: pytest.Item) -> bool:
    before = session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return session.testsfailed > before


def replace(mutant: Mutant) -> None:
    """Give the loaded function the code of the mutant; existing instances and references change with it."""
    owner: Any = sys.modules[mutant.module]
    *path, name = mutant.function.split(".")
    for part in path:
        owner = getattr(owner, part)
    replaced = False
    for function in _plain(vars(owner)[name]):
        code: CodeType = function.__code__
        if code.co_firstlineno == mutant.code.co_firstlineno and code.co_freevars == mutant.code.co_freevars:
            function.__code__ = mutant.code
            replaced = True
    if not replaced:
        raise LookupError(f"{mutant.module} has no function with the code of {mutant.function}")


def _plain(value: Any) -> Iterable[Any]:
    """The plain functions behind a method, a property, or a decorated function."""
    for candidate in (
        value,
        *(getattr(value, name, None) for name in ("__func__", "fget", "fset", "func", "__wrapped__")),
    ):
        while hasattr(candidate, "__wrapped__"):
            candidate = candidate.__wrapped__
        if hasattr(candidate, "__code__"):
            yield candidate
