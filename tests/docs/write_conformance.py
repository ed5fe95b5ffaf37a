"""Writes the reference part of docs/conformance.md: ``python -m tests.docs.write_conformance``.

Ids, names, levels, rules and flags of the checks come from the kit. What the page says on a check besides is written
there by hand, and kept: purpose, method, condition, requirement.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from penstock_testing import Capabilities, Feeder, all_checks
from penstock_testing.check import PINNED, Check, Kind

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
START = "## Feeder\n"
_NO_TEXT = ("", "", "", "")
TITLES: dict[Kind, str] = {
    "plugin": "Every plugin: packaging and loading",
    "receiver": "Receivers",
    "rate-estimator": "Rate estimators",
    "listener": "Listeners",
    "block-store": "Block stores",
    "live": "In a program on Spark",
}


def reference() -> str:
    """The generated part of the page."""
    checks = list(all_checks().values())
    parts = [_feeder(), _capabilities()]
    parts.append(f"## The checks\n\n{len(checks)} checks of plugins. `requires`: the flag of `Capabilities`, if any.\n")
    parts += [_table(kind, [each for each in checks if each.kind == kind]) for kind in TITLES if PINNED[kind]]
    return "\n".join(parts)


def _feeder() -> str:
    methods = [
        (name, function)
        for name, function in vars(Feeder).items()
        if inspect.isfunction(function) and not name.startswith("_")
    ]
    rows = [
        f"| `{name}({', '.join(list(inspect.signature(function).parameters)[1:])})` | {_text(function.__doc__)} |"
        for name, function in methods
    ]
    return "\n".join([START, "| method | what it does |", "|---|---|", *rows, ""])


def _capabilities() -> str:
    rows = [
        f"| `{field.name}` | {field.metadata['kind'].replace('-', ' ')} | `{field.default}` | "
        f"{_text(field.metadata['meaning'])} |"
        for field in attrs.fields(Capabilities)
    ]
    return "\n".join(["## Capabilities\n", "| flag | kind | default | meaning |", "|---|---|---|---|", *rows, ""])


def _table(kind: Kind, checks: list[Check]) -> str:
    written = written_by_hand()
    head = ["| check | rule and purpose | method | condition | requires |", "|---|---|---|---|---|"]
    return "\n".join([f"### {TITLES[kind]} ({PINNED[kind]})\n", *head, *(_row(check, written) for check in checks), ""])


def _row(check: Check, written: Mapping[str, Sequence[str]]) -> str:
    purpose, method, condition, requires = written.get(check.id, _NO_TEXT)
    cells = [
        f'<a id="{check.id.lower()}"></a>{check.id} `{check.name}` ({check.level})',
        f"**{_text(check.rule)}** Purpose: {purpose}",
        method,
        condition,
        f"`{check.requires}`; {requires}" if check.requires else requires,
    ]
    return f"| {' | '.join(cells)} |"


def written_by_hand() -> dict[str, Sequence[str]]:
    """Purpose, method, condition and requirement of each check, as the page has them."""
    rows = re.findall(
        r'^\| <a id="[^"]*"></a>(\S+) [^|]*\| \*\*.*?\*\* Purpose: (.*?) \| (.*?) \| (.*?) \| (?:`\w+`; )?(.*?) \|$',
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return {check_id: texts for check_id, *texts in rows}


def _text(text: str | None) -> str:
    """One line of a table."""
    return " ".join((text or "").split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write the page."""
    prose = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(prose + reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
