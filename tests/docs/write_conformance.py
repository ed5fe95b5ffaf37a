"""Writes the reference part of docs/conformance.md from the kit: ``python -m tests.docs.write_conformance``."""

from __future__ import annotations

from pathlib import Path

import attrs

from penstock_testing import Capabilities, all_checks
from penstock_testing.check import PINNED, Check, Kind

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
START = "## Capabilities\n"
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
    head = f"""## The checks

There are {len(checks)} checks. "must if `ordered`" means that the check applies only to plugins with this capability.
The docstring of a check has the purpose of the rule and the condition that passes:
`python -m pydoc penstock_testing.ReceiverSuite` prints those of all checks of receivers.
"""
    parts = [_capabilities(), head]
    parts += [_table(kind, [check for check in checks if check.kind == kind]) for kind in TITLES if PINNED[kind]]
    return "\n".join(parts)


def _capabilities() -> str:
    rows = [
        f"| `{field.name}` | {field.metadata['kind'].replace('-', ' ')} | `{field.default}` | "
        f"{_text(field.metadata['meaning'])} |"
        for field in attrs.fields(Capabilities)
    ]
    return "\n".join([START, "| flag | kind | default | meaning |", "|---|---|---|---|", *rows, ""])


def _table(kind: Kind, checks: list[Check]) -> str:
    head = ["| check | level | rule |", "|---|---|---|"]
    return "\n".join([f"### {TITLES[kind]} ({PINNED[kind]})\n", *head, *map(_row, checks), ""])


def _row(check: Check) -> str:
    level = f"{check.level} if `{check.requires}`" if check.requires else check.level
    return f"| {check.id} `{check.name}` | {level} | {_text(check.rule)} |"


def _text(text: str) -> str:
    """One cell of a table."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write the page."""
    prose = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(prose + reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
