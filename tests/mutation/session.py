"""A pytest session that runs its tests once for each mutant, in forks of the process that has collected them."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

import pytest
from attrs import define, field, frozen
from tests.mutation.mutations import Mutant

#: ``timeout`` counts as killed; no test calls the function of an ``untested`` mutant.
Verdict = Literal["killed", "timeout", "survived", "untested"]
_fork = multiprocessing.get_context("fork")
# A mutant's tests may take this many times as long as before, and so many seconds longer.
_SLOWER, _LONGER_S = 5, 10.0
_BASELINE_S = 3600.0


@frozen
class Baseline:
    """The tests without a mutant: by index of the test, the functions of the modules that it calls, and seconds."""

    calls: Mapping[int, frozenset[tuple[str, str]]]
    seconds: Mapping[int, float]

    def tests_of(self, mutant: Mutant) -> list[int]:
        """The tests that call the function of a mutant, the fastest first."""
        function = mutant.module, mutant.function
        return sorted((test for test, called in self.calls.items() if function in called), key=self.seconds.__getitem__)


@define
class MutationSession:
    """A pytest plugin: collects tests, runs them once without a mutant, and then for each mutant those that call it.

    Attributes:
        mutants: what to test.
        end_s: monotonic time after which no further mutant is tested.
        on_verdict: called for each mutant with its verdict and the name of the test that killed it.
        failing: names of tests that fail without a mutant; they are left out.
    """

    mutants: Iterable[Mutant]
    end_s: float
    on_verdict: Callable[[Mutant, Verdict, str], None]
    failing: list[str] = field(factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests in forks instead of here."""
        # The verdicts are the output.
        session.config.pluginmanager.unregister(name="terminalreporter")
        modules = {mutant.module for mutant in self.mutants}
        for module in modules:
            importlib.import_module(module)
        baseline = self._baseline(session, modules)
        for mutant in self.mutants:
            if time.monotonic() > self.end_s:
                break
            tests = baseline.tests_of(mutant)
            if not tests:
                self.on_verdict(mutant, "untested", "")
                continue
            limit_s = _SLOWER * sum(baseline.seconds[test] for test in tests) + _LONGER_S
            answer = _in_fork(partial(_run_mutant, session, mutant, tests), limit_s)
            killer = "" if not answer else str(answer[-1])
            self.on_verdict(mutant, "timeout" if answer is None else "killed" if killer else "survived", killer)
        return True

    def _baseline(self, session: pytest.Session, modules: set[str]) -> Baseline:
        answer = _in_fork(partial(_run_baseline, session, modules), _BASELINE_S) or []
        self.failing += [session.items[test].nodeid for test, called, _seconds in answer if called is None]
        sound = [(test, called, seconds) for test, called, seconds in answer if called is not None]
        return Baseline(
            {test: frozenset(map(tuple, called)) for test, called, _seconds in sound},
            {test: seconds for test, _called, seconds in sound},
        )


def _in_fork(run: Callable[[Connection], None], limit_s: float) -> list[Any] | None:
    """Run in a fork; return what it sent, or ``None`` when it did not end in time."""
    receiving, sending = _fork.Pipe(duplex=False)

    def child() -> None:
        os.setsid()
        run(sending)
        # Threads that a mutant left behind would keep the process alive.
        os._exit(0)

    process = _fork.Process(target=child)
    process.start()
    sending.close()
    answers, end_s = [], time.monotonic() + limit_s
    try:
        while receiving.poll(max(end_s - time.monotonic(), 0)):
            answers.append(json.loads(receiving.recv_bytes()))
    except EOFError:
        process.join(10)
        return answers
    finally:
        if process.is_alive() and process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        receiving.close()
    return None


def _run_baseline(session: pytest.Session, modules: set[str], results: Connection) -> None:
    files = {str(Path(sys.modules[module].__file__ or "")): module for module in modules}
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and (module := files.get(frame.f_code.co_filename)) is not None:
            called.add((module, frame.f_code.co_qualname.partition(".<locals>")[0]))

    threading.setprofile(note)
    sys.setprofile(note)
    for test, item in enumerate(session.items):
        called.clear()
        began = time.monotonic()
        failed = _fails(session, item)
        answer = test, None if failed else sorted(called), time.monotonic() - began
        results.send_bytes(json.dumps(answer).encode())


def _run_mutant(session: pytest.Session, mutant: Mutant, tests: list[int], results: Connection) -> None:
    replace(mutant)
    for test in tests:
        if _fails(session, session.items[test]):
            results.send_bytes(json.dumps(session.items[test].nodeid).encode())
            return


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
    for function in _plain(vars(owner)[name]):
        code: CodeType = function.__code__
        if code.co_firstlineno == mutant.code.co_firstlineno and code.co_freevars == mutant.code.co_freevars:
            function.__code__ = mutant.code


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
