"""The conformance checks as values: ids, levels, time limits, advice, and how a check fails.

A check is a test method of a suite, decorated with ``@check``. Its docstring is its documentation: the first line
states the rule; the sections Purpose and Condition follow.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import pytest
from attrs import frozen

from penstock.spi import GROUP, summary_of

Kind = Literal["plugin", "receiver", "rate-estimator", "listener", "block-store", "live"]
Level = Literal["must", "should", "may"]
F = TypeVar("F", bound=Callable[..., None])

#: The entry-point group in which a distribution names the conformance suites of its plugins; only tests load them.
SUITES_GROUP = f"{GROUP}.suites"
#: The number of checks by kind. A suite of another size is an error: a check that silently disappeared would pass.
PINNED: Mapping[Kind, int] = {
    "plugin": 16,
    "receiver": 55,
    "rate-estimator": 24,
    "listener": 15,
    "block-store": 8,
    "live": 6,
}
#: Prefix of the ids of a kind.
PREFIXES: Mapping[str, Kind] = {
    "PK": "plugin",
    "RC": "receiver",
    "RE": "rate-estimator",
    "LI": "listener",
    "BS": "block-store",
    "XX": "live",
}
#: The reason of a live check that a run without ``live`` skips.
LIVE_OFF = "live checks are off: set live=True, or pass --live"
#: A check does not apply to the plugin: pytest skips it with the message as reason.
NotApplicable = pytest.skip.Exception


@frozen
class Check:
    """One conformance check.

    Attributes:
        id: such as ``RC-06``.
        level: ``must``, ``should`` or ``may``, as in RFC 2119.
        requires: the capability without which the check is not applicable; empty for none.
        change: advice to the author of a plugin that fails it, one sentence.
        limit_s: the time limit in seconds, multiplied by ``PENSTOCK_TEST_SCALE``.
        function: the test method.
    """

    id: str
    level: Level
    requires: str
    change: str
    limit_s: float
    function: Callable[..., None]

    @property
    def name(self) -> str:
        """The name without the id, such as ``stop_wakes_a_blocked_read``."""
        return self.function.__name__.split("_", 3)[3]

    @property
    def kind(self) -> Kind:
        """The kind of plugin that it tests, from the prefix of its id."""
        return PREFIXES[self.id[:2]]

    @property
    def rule(self) -> str:
        """The rule that must hold: the first line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def order(self) -> tuple[int, str]:
        """The sort key: packaging first, then the kind's own checks, then the live ones."""
        return list(PINNED).index(self.kind), self.id


class CheckFailure(AssertionError):
    """A plugin breaks a rule.

    Attributes:
        seen: the observed behaviour, with values.
        smallest: the smallest input that shows it; may be empty.
        change: advice to the author; empty: the check's own ``change`` applies.
    """

    def __init__(self, seen: str, smallest: str = "", change: str = "") -> None:
        super().__init__(seen)
        self.seen = seen
        self.smallest = smallest
        self.change = change


def fail_raised(what: str, error: BaseException, smallest: object = "") -> NoReturn:
    """Fail the check because the plugin raised an exception that no check asks for."""
    fail(f"{what} raised {summary_of(error)}", smallest, fix_of(error))


def fix_of(error: BaseException) -> str:
    """Advice to the author of a plugin that raised an unexpected exception: its class, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    origin = f", raised in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"fix the cause of the {type(error).__name__}{origin}"


def scale() -> float:
    """The factor of every deadline, from ``PENSTOCK_TEST_SCALE``: above 1 on a slow machine.

    Raises:
        ValueError: the variable is not a number above 0.
    """
    text = os.environ.get("PENSTOCK_TEST_SCALE", "1")
    try:
        value = float(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise ValueError(f"PENSTOCK_TEST_SCALE={text!r}: must be a number above 0, a factor for all deadlines")
    return value


def check(check_id: str, level: Level, *, change: str, requires: str = "", limit_s: float = 20.0) -> Callable[[F], F]:
    """Mark a test method as a check: with ``conformance``, its level and, if it requires one, its ``capability``.

    Args:
        check_id: such as ``RC-06``; the prefix decides the kind.
        level: ``must``, ``should`` or ``may``, as in RFC 2119.
        change: advice to the author of a plugin that fails it, one sentence in the imperative.
        requires: the field of ``Capabilities`` without which the check is not applicable.
        limit_s: the time limit in seconds, before scaling.
    """

    def mark(function: F) -> F:
        prefix = f"test_{check_id.replace('-', '_')}_"
        if not function.__doc__ or not function.__name__.startswith(prefix):
            raise ValueError(f"check {check_id}: its method needs documentation, and a name that starts with {prefix}")
        value = Check(check_id, level, requires, change, limit_s, function)
        function = getattr(pytest.mark, level)(pytest.mark.conformance(value)(function))
        return pytest.mark.capability(requires)(function) if requires else function

    return mark


def fail(seen: str, smallest: object = "", change: str = "") -> NoReturn:
    """Fail the running check.

    Args:
        seen: the observed behaviour: one sentence with the actor first and the values.
        smallest: the smallest input that shows it.
        change: more precise advice than the check's own.
    """
    raise CheckFailure(seen, str(smallest), change)


def check_of(method: Any) -> Check | None:
    """The check that a test method implements; ``None`` for other functions."""
    marks = getattr(method, "pytestmark", ())
    return next((mark.args[0] for mark in marks if mark.name == "conformance"), None)
