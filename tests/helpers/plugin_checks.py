"""Checks that every first-party plugin passes: entry point, import without side effects, documented options."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from typing import Any

from penstock.plugins.discovery import Plugins


def assert_entry_point_registers(entry_point: str, kind: str, spec: Any) -> None:
    """The entry point of the group ``penstock`` leads to ``spec``, listed under its name and hook ``kind``."""
    own = [each for each in importlib.metadata.entry_points(group="penstock") if each.name == entry_point]
    assert Plugins(strict=True, entry_points=own).spec(kind, spec.name) == spec  # type: ignore[call-overload, unused-ignore]


def assert_import_starts_nothing(module: str, *not_imported: str) -> None:
    """Importing ``module`` in a new interpreter starts no thread and imports none of the packages named."""
    code = f"""
import sys, threading
import {module}
assert threading.active_count() == 1, threading.enumerate()
found = {set(not_imported)!r} & set(sys.modules)
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def option_row(option: Any) -> str:
    """The row that a plugin's README must hold for an option."""
    default = "(required)" if option.default is None else f"`{option.default}`"
    return f"| `{option.name}` | {default} | {option.help} |"
