"""The tables of ``docs/configuration.md``: ``python -m tests.docs.write_configuration`` prints them."""

from __future__ import annotations

from typing import get_type_hints

from penstock.conf import KEYS, Settings, key
from penstock.conf_values import type_name


def as_markdown() -> str:
    """One table for each group."""
    types = get_type_hints(Settings, include_extras=True)
    lines, group = list[str](), ""
    for attribute, row in KEYS.items():
        if row.group != group:
            group = row.group
            lines += ["", f"## {group.capitalize()}", "", "| key | type, default | meaning |", "|---|---|---|"]
        default = f", `{row.default}`" if row.default else ""
        if row.falls_back_to:
            default = f", value of `{key(row.falls_back_to)}`"
        if row.in_production is not None:
            default += f", in production `{row.in_production}`"
        lines.append(f"| `{row.name}` | {type_name(types[attribute])}{default} | {row.help} |")
    return "\n".join(lines[1:])


if __name__ == "__main__":
    print(as_markdown())
