"""The tables of ``docs/configuration.md``: ``python -m penstock_cli.conf_table`` prints them."""

from __future__ import annotations

from penstock.spi import KEYS


def as_markdown() -> str:
    """One table for each group."""
    lines, group = list[str](), ""
    for key in KEYS.values():
        if key.group != group:
            group = key.group
            lines += ["", f"## {group.capitalize()}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        default = f"`{key.default}`" if key.default else "(empty)"
        if key.falls_back_to:
            default = f"value of `{KEYS[key.falls_back_to].name}`"
        lines.append(f"| `{key.name}` | {key.type} | {default} | {key.help} |")
    return "\n".join(lines[1:])


if __name__ == "__main__":
    print(as_markdown())
