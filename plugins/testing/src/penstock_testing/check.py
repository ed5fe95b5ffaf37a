"""The registry of conformance checks: what a check is, how it is registered, and how it fails.

A check is a function with one argument, the kit of its kind, decorated with ``@check``. Its docstring is its
documentation: the first line states the rule; the sections Purpose, Method, Condition and Requires follow.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Literal, NoReturn, TypeVar

from attrs import frozen

from penstock.errors import ConfigurationError, UnknownNameError

Kind = Literal["plugin", "receiver", "rate-estimator", "listener", "block-store", "live"]
Level = Literal["must", "should", "may"]
F = TypeVar("F", bound=Callable[[Any], None])

#: The number of checks by kind. A registry of another size is an error: a check that silently disappeared would pass.
PINNED: Mapping[Kind, int] = {
    "plugin": 15,
    "receiver": 46,
    "rate-estimator": 24,
    "listener": 15,
    "block-store": 22,
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
#: The kinds that a suite tests; ``plugin`` and ``live`` are part of each.
SUITE_KINDS: tuple[Kind, ...] = ("receiver", "rate-estimator", "listener", "block-store")
#: The kinds that a run of checks accepts; ``plugin`` tests the packaging alone.
SUBJECT_KINDS: tuple[Kind, ...] = (*SUITE_KINDS, "plugin")
#: The sections of a check's documentation.
SECTIONS = ("Purpose", "Method", "Condition", "Requires")
_MODULES = (
    "packaging",
    "packaging_options",
    "packaging_instances",
    "receiver_lifecycle",
    "receiver_data",
    "receiver_rate",
    "receiver_faults",
    "receiver_guarantees",
    "receiver_positions",
    "receiver_arrow",
    "receiver_observability",
    "rate_estimator",
    "rate_estimator_loop",
    "rate_estimator_state",
    "listener",
    "listener_limits",
    "block_store",
    "block_store_limits",
    "live",
)
_registry: dict[str, Check] = {}


@frozen
class Check:
    """One conformance check.

    Attributes:
        id: such as ``RC-06``.
        level: ``must``, ``should`` or ``may``, as in RFC 2119.
        requires: the capability without which the check is not applicable; empty for none.
        change: advice to the author of a plugin that fails it, one sentence.
        limit_s: the time limit in seconds, multiplied by ``PENSTOCK_TEST_SCALE``.
        function: runs the check; gets the kit of its kind.
    """

    id: str
    level: Level
    requires: str
    change: str
    limit_s: float
    function: Callable[[Any], None]

    @property
    def name(self) -> str:
        """Such as ``stop_wakes_a_blocked_read``."""
        return self.function.__name__

    @property
    def kind(self) -> Kind:
        """The kind of plugin that it tests, from the prefix of its id."""
        return PREFIXES[self.id[:2]]

    @property
    def rule(self) -> str:
        """The rule that must hold: the first line of the docstring."""
        return inspect.getdoc(self.function).partition("\n")[0]  # type: ignore[union-attr]  # `check` refuses none

    @property
    def documentation(self) -> dict[str, str]:
        """The sections of its docstring, by name."""
        text = inspect.getdoc(self.function) or ""
        parts = re.split(rf"^({'|'.join(SECTIONS)}):\s*", text, flags=re.MULTILINE)
        return {name: " ".join(body.split()) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


class CheckFailure(AssertionError):
    """A plugin breaks a rule.

    Attributes:
        seen: the observed behaviour, with values.
        smallest: the smallest input that shows it; may be empty.
        change: advice to the author; empty: the check's own ``change`` applies.
    """

    def __init__(self, seen: str, smallest: str = "", change: str = "") -> None:
        super().__init__(seen)
        self.seen, self.smallest, self.change = seen, smallest, change


class NotApplicable(Exception):  # an outcome, not an error
    """A check does not apply to this plugin; the message says why."""


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
    """Register a function as a check.

    Args:
        check_id: such as ``RC-06``; the prefix decides the kind.
        level: ``must``, ``should`` or ``may``, as in RFC 2119.
        change: advice to the author of a plugin that fails it, one sentence in the imperative.
        requires: the field of ``Capabilities`` without which the check is not applicable.
        limit_s: the time limit in seconds, before scaling.
    """

    def register(function: F) -> F:
        if check_id in _registry:
            raise ValueError(f"check {check_id} is registered twice")
        if not function.__doc__:
            raise ValueError(f"check {check_id} has no documentation")
        _registry[check_id] = Check(check_id, level, requires, change, limit_s, function)
        return function

    return register


def fail(seen: str, smallest: object = "", change: str = "") -> NoReturn:
    """Fail the running check.

    Args:
        seen: the observed behaviour: one sentence with the actor first and the values.
        smallest: the smallest input that shows it.
        change: more precise advice than the check's own.

    Raises:
        CheckFailure: always.
    """
    raise CheckFailure(seen, str(smallest), change)


def all_checks() -> dict[str, Check]:
    """Every check by id, in the order of ids.

    Raises:
        RuntimeError: the number of checks of a kind differs from ``PINNED``.
    """
    for module in _MODULES:
        import_module(f"penstock_testing.checks.{module}")
    by_kind = {kind: [each for each in _registry.values() if each.kind == kind] for kind in PINNED}
    for kind, pinned in PINNED.items():
        if len(by_kind[kind]) != pinned:
            raise RuntimeError(f"the kit has {len(by_kind[kind])} checks of kind {kind}; PINNED says {pinned}")
    return {each.id: each for kind in PINNED for each in sorted(by_kind[kind], key=lambda one: one.id)}


def checks_for(kind: Kind, only: Iterable[str] | None = None) -> list[Check]:
    """The checks of a suite: packaging, those of the kind, and the live ones; for ``plugin`` packaging alone.

    Args:
        kind: ``receiver``, ``rate-estimator``, ``listener``, ``block-store`` or ``plugin``.
        only: the ids of the checks to select; ``None`` selects all.

    Raises:
        ConfigurationError: ``kind`` is unknown.
        UnknownNameError: an id is unknown for this kind; the message names the nearest.
    """
    if kind not in SUBJECT_KINDS:
        raise ConfigurationError(f"no kind {kind!r} of plugin has checks; these have: {', '.join(SUBJECT_KINDS)}")
    kinds = {"plugin"} if kind == "plugin" else {"plugin", kind, "live"}
    found = {key: each for key, each in all_checks().items() if each.kind in kinds}
    if only is None:
        return list(found.values())
    for check_id in only:
        if check_id not in found:
            raise UnknownNameError("check", check_id, found, f"a {kind}")
    return [found[check_id] for check_id in only]
