"""Writes the reference part of docs/conformance.md from the kit: ``python -m tests.docs.write_conformance``."""

from __future__ import annotations

import inspect
from pathlib import Path

import attrs

from penstock_testing import Capabilities, Feeder, all_checks
from penstock_testing.check import PINNED, Check, Kind

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
START = "## Feeder\n"
#: The sections of a check's docstring.
SECTIONS = ("Purpose", "Method", "Condition", "Requires")
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
    head = ["| check | rule and purpose | method | condition | requires |", "|---|---|---|---|---|"]
    return "\n".join([f"### {TITLES[kind]} ({PINNED[kind]})\n", *head, *map(_row, checks), ""])


def _row(check: Check) -> str:
    sections = sections_of(check)
    requires = f"`{check.requires}`; {sections['Requires']}" if check.requires else sections["Requires"]
    cells = [
        f'<a id="{check.id.lower()}"></a>{check.id} `{check.name}` ({check.level})',
        f"**{check.rule}** Purpose: {sections['Purpose']}",
        sections["Method"],
        sections["Condition"],
        requires,
    ]
    return f"| {' | '.join(_text(cell) for cell in cells)} |"


def sections_of(check: Check) -> dict[str, str]:
    """The sections of a check's docstring, by name."""
    sections = dict[str, str]()
    for line in (inspect.getdoc(check.function) or "").splitlines():
        name, colon, text = line.partition(": ")
        if colon and name in SECTIONS:
            sections[name] = text
        elif sections:
            sections[list(sections)[-1]] += f" {line.strip()}"
    return {name: text.strip() for name, text in sections.items()}


def _text(text: str | None) -> str:
    """One line of a table."""
    return " ".join((text or "").split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write the page."""
    prose = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(prose + reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
