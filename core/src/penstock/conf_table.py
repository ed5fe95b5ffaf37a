"""All keys, and the tables of ``docs/configuration.md``: ``python -m penstock.conf_table`` prints them."""

from __future__ import annotations

from typing import get_type_hints

from penstock.conf import KEYS, Settings, key
from penstock.conf_values import type_name


def keys() -> list[str]:
    """Every key that the core knows, in the order of the documentation."""
    return [each.name for each in KEYS.values()]


def as_markdown() -> str:
    """One table for each group."""
    types = get_type_hints(Settings, include_extras=True)
    lines, group = list[str](), ""
    for attribute, each in KEYS.items():
        if each.group != group:
            group = each.group
            lines += ["", f"## {group.capitalize()}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        default = f"`{each.default}`" if each.default else "(empty)"
        if each.falls_back_to:
            default = f"value of `{key(each.falls_back_to)}`"
        lines.append(f"| `{each.name}` | {type_name(types[attribute])} | {default} | {each.help} |")
    return "\n".join(lines[1:])


if __name__ == "__main__":
    print(as_markdown())
