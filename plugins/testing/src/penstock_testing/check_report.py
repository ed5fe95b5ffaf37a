"""``Report``: the results of a run of checks, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import Literal

import attrs
from attrs import frozen

from penstock_testing.check import Check, Level

Outcome = Literal["passed", "failed", "excused", "not applicable"]
#: The title of the page of the documentation that describes each check; the anchor is its id in lower case.
PAGE = "Conformance checks"
# Kind → the checks of which one must have run for a grade above ``loads``: without data they are not applicable.
_DATA_CHECKS = {"receiver": {"RC-10"}, "listener": {"LI-06", "LI-11"}}
_NO_DATA = {
    "receiver": "nothing that needs data was tested: give a suite with a feeder",
    "listener": "nothing that it counts was tested: return a ListenerProbe from make",
}


@frozen
class Result:
    """How one check ended.

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
    """

    kind: str
    subject: str
    seed: int
    pinned: int | None
    results: tuple[Result, ...]

    def __getitem__(self, check_id: str) -> Result:
        """The result of a check.

        Raises:
            KeyError: the check is not part of this run.
        """
        return {each.id: each for each in self.results}[check_id]

    @property
    def failed(self) -> list[Result]:
        """The failures without an excuse."""
        return [each for each in self.results if each.outcome == "failed"]

    @property
    def is_complete(self) -> bool:
        """Whether each of the pinned number of checks has a result."""
        return self.pinned is None or len(self.results) == self.pinned

    @property
    def ok(self) -> bool:
        """Whether the run is complete and no check of level ``must`` or ``should`` failed."""
        return self.is_complete and all(each.level == "may" for each in self.failed)

    @property
    def grade(self) -> str:
        """``fails``; ``loads``: all packaging musts; ``behaves``: all musts; ``hardened``: all musts and shoulds.

        Empty for a run that selected checks.
        """
        levels = {each.level for each in self.failed}
        if self.pinned is None:
            return ""
        if not self.is_complete or any(each.id.startswith("PK") and each.level == "must" for each in self.failed):
            return "fails"
        if "must" in levels or not self._has_data:
            return "loads"
        return "behaves" if "should" in levels else "hardened"

    @property
    def _has_data(self) -> bool:
        """Whether a check that needs data ran: what passes without data says little about the plugin."""
        needed = _DATA_CHECKS.get(self.kind)
        return needed is None or any(each.id in needed and each.outcome != "not applicable" for each in self.results)

    def summary(self) -> str:
        """The last line: run, not applicable, excused, failed with their ids, and the pinned total."""
        counts = Counter(each.outcome for each in self.results)
        missing = "" if self.is_complete else f" INCOMPLETE: only {len(self.results)} of {self.pinned} checks have run."
        total = f"{len(self.results)} selected" if self.pinned is None else f"{self.pinned} in all"
        failed = f" ({', '.join(each.id for each in self.failed)})" if self.failed else ""
        excused = f" ({counts['excused']} excused)" if counts["excused"] else ""
        no_data = f" ({_NO_DATA[self.kind]})" if self.grade == "loads" and not self._has_data else ""
        grade = f" grade: {self.grade}{excused}{no_data};" if self.grade else ""
        run = counts["passed"] + counts["failed"] + counts["excused"]
        return (
            f"{self.subject} ({self.kind}): {run} run, {counts['not applicable']} not applicable, "
            f"{counts['excused']} excused, {counts['failed']} failed{failed}; {total};{grade} "
            f"seed {self.seed}.{missing}"
        )

    def text(self) -> str:
        """All results, then the summary."""
        return "\n".join([*(each.text() for each in self.results), self.summary()])

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(attrs.asdict(self) | {"ok": self.ok, "grade": self.grade}, indent=2)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 18)
