"""``Subject``, the argument of a check: the plugin under test, and what a check needs to test it.

It makes instances, has deadlines and seeded randomness, and finds what the plugin has not released. Each kind of plugin
has a subclass.
"""

from __future__ import annotations

import inspect
import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cache, cached_property, partial
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from penstock.spi import (
    GROUP,
    HOOK_OF,
    LoadedPlugin,
    Option,
    Plugins,
    encode,
    records,
)
from penstock_testing.capabilities import Capabilities
from penstock_testing.check import Check, NotApplicable, fail, scale
from penstock_testing.feeder import Feeder
from penstock_testing.leaks import LeakMeter
from penstock_testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from penstock_testing.suites import ConformanceSuite

#: Kind of plugin → the hook that offers specs of this kind. Other kinds have no specs.
HOOKS: Mapping[str, str] = {"receiver": "receivers", "rate-estimator": "rate_estimators"}
_POLL_S = 0.002
# The number of characters of printed text that a failure shows.
_SHOWN = 100


class Subject:
    """The plugin under test during one run of one check. What is entered here is closed when the check ends.

    Args:
        suite: says how the plugin is made.
        check: the running check.
        folder: an empty folder for this check.
        output: captures what is printed during the check.
    """

    def __init__(self, suite: ConformanceSuite, check: Check, folder: Path, output: pytest.CaptureFixture[str]) -> None:
        self.suite = suite
        self.check = check
        self.folder = folder
        self.output = output
        #: Seeded by the run's seed and the check's id: a check draws the same values alone and among others.
        self.rng = random.Random(f"{suite.seed} {check.id}")
        self._entered = ExitStack()
        self.begin()

    def begin(self) -> None:
        """Note the state of the process. pytest calls it again when the check's time limit starts."""
        self.leak_meter = LeakMeter()
        self.output.readouterr()

    @classmethod
    def prepare(cls, suite: ConformanceSuite) -> None:
        """Do once in this process what only the first check would wait for: it counts against no time limit."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the plugin declares."""
        return self.suite.capabilities

    def enter(self, resource: Any) -> Any:
        """Enter a context manager until the check ends."""
        return self._entered.enter_context(resource)

    def on_close(self, function: Callable[[], object]) -> None:
        """Call a function when the check ends."""
        self._entered.callback(function)

    def close(self) -> None:
        """Close what was entered, the last first."""
        self._entered.close()

    def instance(self, *arguments: Any, **keywords: Any) -> Any:
        """Make an instance.

        Args:
            arguments: the feeder, the batch interval, the context or the folder; the first arguments of ``make``.
            keywords: passed to ``make`` if it has arguments of these names.
        """
        return self.maker(*arguments, **keywords)()

    def maker(self, *arguments: Any, **keywords: Any) -> Callable[[], Any]:
        """A function that makes an instance. Its arguments are those of ``instance``.

        Plugins are loaded and options are read before it is returned, so that it runs the plugin's code alone.
        """
        make = self.suite.make
        if make is not None:
            accepted = {name: value for name, value in keywords.items() if self.takes(name)}
            return partial(make, *arguments[: _positional(make)], **accepted)
        if self.suite.kind in HOOKS:
            return self._from_spec(*arguments, **keywords)
        return partial(self._listeners if self.suite.kind == "listener" else self._store, *arguments)

    def takes(self, name: str) -> bool:
        """Whether ``make`` has an argument of this name; true for an installed plugin."""
        return self.suite.make is None or name in inspect.signature(self.suite.make).parameters

    @cached_property
    def spec(self) -> Any:
        """The installed plugin's spec."""
        return Plugins().spec(HOOKS[self.suite.kind], self.suite.name)

    def _from_spec(
        self, *arguments: Any, position: Mapping[str, Any] | None = None, index: int = 0, count: int = 1
    ) -> Callable[[], Any]:
        options = dict(self.suite.options)
        feeder = arguments[0] if arguments and isinstance(arguments[0], Feeder) else None
        if feeder is not None:
            arguments = ()
            options |= feeder.options()
            options |= {} if position is None else feeder.position_options(position)
            options |= {} if count == 1 else feeder.share_options(index, count)
        kind = Plugins.KINDS[HOOKS[self.suite.kind]].kind
        for option in Option.of(self.spec.options):
            if option.default is None and option.name not in options:
                _refuse(f"{kind} {self.suite.name!r} needs the option {option.name!r}", feeder, options)
        values = self.spec.read_options(options)
        return partial(
            self.spec.factory, *(() if values is None and self.suite.kind == "receiver" else (values,)), *arguments
        )

    def _alone(self) -> tuple[Plugins, LoadedPlugin]:
        """The installed plugin of the suite's name, loaded apart from the others."""
        plugins = Plugins(entry_points=list(entry_points(group=GROUP, name=self.suite.name))[:1])
        if not plugins.loaded or plugins.loaded[0].fault:
            raise NotApplicable(f"the plugin {self.suite.name} does not load: see PK-01")
        return plugins, plugins.loaded[0]

    def _listeners(self, context: Any) -> list[object]:
        """The listeners from the plugin's hook ``listeners``, and the plugin itself if it has ``on…`` hooks."""
        plugins, record = self._alone()
        listeners = [item for result in plugins.manager.hook.listeners(context=context) for item in result]
        callers = {name: getattr(plugins.manager.hook, name) for name in record.hooks if name in HOOK_OF.values()}
        if callers:
            # A class of this name: failures print it.
            itself = type(self.suite.name, (SimpleNamespace,), {})
            listeners.append(itself(**{name: _with_event(caller) for name, caller in callers.items()}))
        if not listeners:
            raise NotApplicable("the plugin offers no listener with this configuration: give a suite with conf")
        return listeners

    def _store(self, _folder: Path) -> object:
        return self._alone()[1].plugin

    def leaks(self, deadline_s: float) -> list[str]:
        """The leaks of the plugin since the check began, and its ``effects``, one per line."""
        return list(dict.fromkeys([*self.leak_meter.leaks(self.deadline_s(deadline_s)), *self.effects()]))

    def effects(self) -> list[str]:
        """The changes of the global state since the check began, and what was printed, one line each."""
        return [*self.leak_meter.changes(), *self._printed()]

    def _printed(self) -> list[str]:
        """The printed text, without the streams that handlers of logging write to: to log is not to print."""
        loggers = [logging.getLogger(), *logging.root.manager.loggerDict.values()]
        handlers = [handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers]
        logged = {getattr(handler, "stream", None) for handler in handlers}
        texts = self.output.readouterr()
        places = {"standard output": (texts.out, sys.stdout), "standard error": (texts.err, sys.stderr)}
        return [
            f"{text[:_SHOWN]!r} was printed to {place}"
            for place, (text, stream) in places.items()
            if text and stream not in logged
        ]

    def deadline_s(self, seconds: float) -> float:
        """A deadline, multiplied by ``PENSTOCK_TEST_SCALE``."""
        return seconds * scale()

    def until(self, condition: Callable[[], object], seen: Callable[[], str] | str, timeout_s: float = 5.0) -> None:
        """Wait until a condition is true.

        Args:
            condition: polled every 2 ms.
            seen: the text of the failure, or a function that returns it.
            timeout_s: the deadline in seconds, before scaling.
        """
        if not self.becomes(condition, timeout_s):
            what = seen if isinstance(seen, str) else seen()
            fail(f"{what} (within {self.deadline_s(timeout_s):g} s; PENSTOCK_TEST_SCALE scales the deadline)")

    def finishes(self, function: Callable[[], object], timeout_s: float) -> bool:
        """Call a function on a thread of its own; return whether it returns or raises before a deadline."""

        def body() -> None:
            # The caller asks only whether it ends.
            with suppress(BaseException):
                function()

        thread = threading.Thread(target=body, name=f"penstock kit {self.check.id} call", daemon=True)
        thread.start()
        thread.join(self.deadline_s(timeout_s))
        return not thread.is_alive()

    def advance_until(
        self, clock: ManualClock, condition: Callable[[], object], step_ms: int = 10, limit_ms: int = 2000
    ) -> bool:
        """Move a manual clock in steps until a condition is true, up to a limit; return whether it is."""
        for _ in range(0, limit_ms, step_ms):
            if self.becomes(condition, 0.01):
                return True
            clock.advance(step_ms)
        return self.becomes(condition)

    def becomes(self, condition: Callable[[], object], timeout_s: float = 5.0) -> bool:
        """Wait until a condition is true, up to a deadline; return whether it is."""
        deadline = time.monotonic() + self.deadline_s(timeout_s)
        while not condition():
            if time.monotonic() > deadline:
                return bool(condition())
            # Polls: a third-party plugin sets no event that this could wait for.
            threading.Event().wait(_POLL_S)
        return True


@cache
def encode_a_block() -> None:
    """Do what takes long for the first block of a process: Arrow imports pandas then, if that is installed."""
    list(records(encode(["record"]).to_batches()))


def _with_event(caller: Any) -> Callable[[object], object]:
    """A hook with one argument, called as the listener bus calls a listener."""
    (argument,) = caller.spec.argnames
    return lambda event: caller(**{argument: event})


def _refuse(needed: str, feeder: Feeder | None, options: Mapping[str, Any]) -> NoReturn:
    """Report that a required option is missing. With a feeder, which gives the options, it is a failure."""
    if feeder is None:
        raise NotApplicable(f"{needed}: set options or a feeder")
    name, names = type(feeder).__name__, ", ".join(options) or "no option"
    fail(
        f"{needed}, and {name} gives {names}",
        change=f"return the receiver's options from {name}.options, or set options in the suite",
    )


def _positional(function: Callable[..., Any]) -> int:
    """The number of positional arguments that a function takes."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 1
    return sum(
        parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD} for parameter in parameters
    )
