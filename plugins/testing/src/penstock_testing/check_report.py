"""``Report``: the results of a run of checks, as text and as JSON, read from pytest's reports."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs
import pytest
from attrs import frozen

from penstock.spi import summary_of
from penstock_testing.check import LIVE_OFF, Check, CheckFailure, Level, fix_of
from penstock_testing.feeder import Feeder

if TYPE_CHECKING:
    from penstock_testing.suites import ConformanceSuite

Outcome = Literal["passed", "failed", "excused", "not applicable"]
#: The user property of pytest's reports that has a check's result.
PROPERTY = "penstock"
#: The title of the page of the documentation that describes each check; the anchor is its id in lower case.
PAGE = "Conformance checks"
# The checks of acknowledgements, leases and sessions that need more of a test source than others → what they test.
_SESSIONS = {
    "RC-47": "acknowledgements of an earlier session",
    "RC-48": "leases",
    "RC-49": "signs of life",
    "RC-50": "the status of an idle source",
    "RC-51": "rebalances",
    "RC-52": "reconnects",
    "RC-53": "dead letters",
    "RC-54": "prefetching",
}
# Kind → the checks of which one must have run for a grade above ``loads``, and what to say without them.
_NEEDED: Mapping[str, tuple[set[str], str]] = {
    "receiver": ({"RC-10"}, "nothing that needs data was tested: give a suite with a feeder"),
    "listener": ({"LI-06", "LI-11"}, "nothing that it counts was tested: return a ListenerProbe from make"),
    "block-store": ({"BS-01"}, "nothing that stores was tested"),
    "rate-estimator": ({"RE-01"}, "nothing that computes was tested: set options or make"),
    "plugin": (set(), "only the packaging was tested"),
}


@frozen
class Result:
    """The outcome of one check.

    Attributes:
        id: the check's id, such as ``RC-06``.
        name: the check's name, such as ``stop_wakes_a_blocked_read``.
        level: ``must``, ``should`` or ``may``.
        outcome: ``excused`` is a failure that ``expected_failures`` gives a reason for.
        seconds: duration of the check.
        rule: the sentence that must hold.
        seen: the observed behaviour, or the reason why the check is not applicable; empty for a pass.
        smallest: the smallest input that shows a failure; may be empty.
        change: advice to the author; empty unless it failed.
        excuse: the declaration that excuses the failure; empty unless it failed.
        docs: page and anchor of the check's documentation.
    """

    id: str
    name: str
    level: Level
    outcome: Outcome
    seconds: float = 0.0
    rule: str = ""
    seen: str = ""
    smallest: str = ""
    change: str = ""
    excuse: str = ""
    docs: str = ""

    @classmethod
    def of(cls, check: Check, outcome: Outcome, seconds: float = 0.0, seen: str = "", smallest: str = "") -> Result:
        """The result of a check that did not fail."""
        docs = f'page "{PAGE}" of the Penstock documentation, #{check.id.lower()}'
        return cls(check.id, check.name, check.level, outcome, seconds, check.rule, seen, smallest, docs=docs)

    def text(self) -> str:
        """The result as readable text: one line, several for a failure."""
        head = f"{self.id} {self.name} ({self.level}): {self.outcome}"
        if self.outcome in {"passed", "not applicable", "excused"}:
            return head + (f", {self.seen}" if self.seen else "")
        lines = {
            "rule": self.rule.replace("``", "`"),
            "seen": self.seen,
            "smallest input": self.smallest,
            "change": self.change,
            "excuse": self.excuse,
            "documentation": self.docs,
        }
        return "\n".join([head, *(f"  {name + ':':<16}{_indented(text)}" for name, text in lines.items() if text)])


@frozen
class Report:
    """The results of a run of checks.

    Attributes:
        kind: the kind of plugin.
        subject: the name of the tested plugin or class.
        seed: a run with the same seed draws the same values.
        pinned: the number of checks in a complete run; ``None`` when the run selected some.
        results: one for each check, in the order of ids.
        beside: offers of the plugin that no suite tests.
    """

    kind: str
    subject: str
    seed: int
    pinned: int | None
    results: tuple[Result, ...]
    beside: tuple[str, ...] = ()

    def __getitem__(self, check_id: str) -> Result:
        """The result of a check.

        Raises:
            KeyError: the check is not part of this run.
        """
        return {result.id: result for result in self.results}[check_id]

    @property
    def failed(self) -> list[Result]:
        """The failures without an excuse."""
        return [result for result in self.results if result.outcome == "failed"]

    @property
    def is_complete(self) -> bool:
        """Whether each of the pinned number of checks has a result."""
        return self.pinned is None or len(self.results) == self.pinned

    @property
    def ok(self) -> bool:
        """Whether the run is complete and no check of level ``must`` or ``should`` failed."""
        return self.is_complete and all(result.level == "may" for result in self.failed)

    @property
    def grade(self) -> str:
        """``fails``; ``loads``: all packaging musts; ``behaves``: all musts; ``hardened``: all musts and shoulds.

        Empty for a run that selected checks.
        """
        levels = {result.level for result in self.failed}
        if self.pinned is None:
            return ""
        if not self.is_complete or any(result.id.startswith("PK") and result.level == "must" for result in self.failed):
            return "fails"
        if "must" in levels or not self._has_run_what_matters:
            return "loads"
        return "behaves" if "should" in levels else "hardened"

    @property
    def _has_run_what_matters(self) -> bool:
        """Whether a check ran without which the others say little about the plugin."""
        needed, _ = _NEEDED[self.kind]
        return any(result.id in needed and result.outcome != "not applicable" for result in self.results)

    @property
    def untested(self) -> list[str]:
        """The parts of the plugin that the grade does not cover."""
        skipped = {result.id for result in self.results if result.outcome == "not applicable"}
        live_off = sum(result.seen == LIVE_OFF for result in self.results)
        return [
            *([] if self._has_run_what_matters else [_NEEDED[self.kind][1]]),
            *(["the packaging was not tested: set name"] if "PK-01" in skipped else []),
            *([f"{live_off} live checks not run: pass --live, or set live=True"] if live_off else []),
            *self._untested_sessions,
            *(f"{what} was not tested" for what in self.beside),
        ]

    @property
    def _untested_sessions(self) -> list[str]:
        """Checks that an acknowledging receiver misses, because its test source does not support them."""
        skipped = {
            result.id: _SESSIONS[result.id]
            for result in self.results
            if result.id in _SESSIONS and result.outcome == "not applicable" and "Capabilities." not in result.seen
        }
        if not skipped or not self._has_run_what_matters:
            return []
        return [f"not tested: {', '.join(skipped.values())} ({', '.join(skipped)}: -rs says why)"]

    def summary(self) -> str:
        """The last line: run, not applicable, excused, failed with their ids, and the pinned total."""
        counts = Counter(result.outcome for result in self.results)
        missing = "" if self.is_complete else f" INCOMPLETE: only {len(self.results)} of {self.pinned} checks have run."
        total = f"{len(self.results)} selected" if self.pinned is None else f"{self.pinned} in all"
        failed = f" ({', '.join(result.id for result in self.failed)})" if self.failed else ""
        excused = f" ({counts['excused']} excused)" if counts["excused"] else ""
        untested = f" ({'; '.join(self.untested)})" if self.untested else ""
        grade = f" grade: {self.grade}{excused}{untested};" if self.grade else ""
        run = counts["passed"] + counts["failed"] + counts["excused"]
        return (
            f"{self.subject} ({self.kind}): {run} run, {counts['not applicable']} not applicable, "
            f"{counts['excused']} excused, {counts['failed']} failed{failed}; {total};{grade} "
            f"seed {self.seed}.{missing}"
        )

    def text(self) -> str:
        """All results, then the summary."""
        return "\n".join([*(result.text() for result in self.results), self.summary()])

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(
            attrs.asdict(self) | {"ok": self.ok, "grade": self.grade, "untested": self.untested}, indent=2
        )


def result_of(
    check: Check, suite: type[ConformanceSuite], call: pytest.CallInfo[None], report: pytest.TestReport, limit_s: float
) -> Result | None:
    """The outcome of one phase of a check, from pytest's report; ``None`` for a phase without a result."""
    error = None if call.excinfo is None else call.excinfo.value
    if report.passed:
        return Result.of(check, "passed", round(call.duration, 3)) if report.when == "call" else None
    if hasattr(report, "wasxfail"):
        return Result.of(check, "excused", round(call.duration, 3), str(report.wasxfail))
    if report.skipped:
        return Result.of(check, "not applicable", seen=str(error))
    if error is None:
        failure = CheckFailure(
            f"the check passes, although expected_failures lists it: {suite.expected_failures[check.id]}",
            change=f"remove {check.id} from expected_failures",
        )
    elif isinstance(error, CheckFailure):
        failure = error
    elif method := _method_of_feeder(error):
        return _failed_feeder(check, method, error, call.duration, limit_s)
    else:
        failure = CheckFailure(_unexpected(error, limit_s), change="" if _is_timeout(error) else fix_of(error))
    return failed(check, failure, call.duration)


def failed(check: Check, failure: CheckFailure, seconds: float = 0.0) -> Result:
    """The result of a check that failed."""
    expected = f'expected_failures = {{"{check.id}": "the reason"}}'
    excuse = f"Capabilities({check.requires}=False), if the plugin does not claim it; else {expected}"
    result = Result.of(check, "failed", round(seconds, 3), failure.seen, failure.smallest)
    return attrs.evolve(result, change=failure.change or check.change, excuse=excuse if check.requires else expected)


def _method_of_feeder(error: BaseException) -> str:
    """The method of the test source that raised an error, or that the time limit interrupted; empty for none."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if isinstance(feeder := frame.f_locals.get("self"), Feeder):
            return f"{type(feeder).__name__}.{frame.f_code.co_name}"
    return ""


def _failed_feeder(check: Check, method: str, error: BaseException, seconds: float, limit_s: float) -> Result:
    """The result of a check whose test source failed: it says nothing on the receiver, which nothing can excuse."""
    if _is_timeout(error):
        change = f"let {method} return: checks also put records during a pause, and while the receiver takes none"
        what = "did not return"
    else:
        change = fix_of(error)
        what = f"raised {summary_of(error)}"
    seen = f"the test source failed, not the receiver: {method} {what}\n{_unexpected(error, limit_s)}"
    result = Result.of(check, "failed", round(seconds, 3), seen)
    return attrs.evolve(result, rule="The test source carries out what a check asks of it.", change=change)


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout")


def _unexpected(error: BaseException, limit_s: float) -> str:
    lines = traceback.format_exception(error)
    if _is_timeout(error):
        # Leave out the function that interrupted the check, and its error.
        stack = "".join(lines[-6:-2]).rstrip()
        return f"the check did not end within its time limit of {limit_s:g} s; its stack:\n{stack}"
    return f"{type(error).__name__}: {error}\n{''.join(lines[-4:]).rstrip()}"


def add_result(report: pytest.TestReport, suite: type[ConformanceSuite], result: Result) -> None:
    """Put a result into pytest's report, worded as the author reads it. A check of level may does not fail the run."""
    report.user_properties.append((PROPERTY, {"kind": suite.kind, "seed": suite.seed, "result": attrs.asdict(result)}))
    if result.outcome == "failed":
        report.longrepr = "\n" + result.text()
        if result.level == "may":
            report.outcome = "skipped"
            report.wasxfail = f"{result.id} failed, which is of level may"


def result_in(report: pytest.TestReport) -> tuple[str, int, Result] | None:
    """Kind, seed and result of the check that a report of pytest is about; ``None`` without a result."""
    values: list[Any] = [value for name, value in report.user_properties if name == PROPERTY]
    return (values[0]["kind"], values[0]["seed"], Result(**values[0]["result"])) if values else None


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 18)
