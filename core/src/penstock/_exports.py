"""Lazy public names: a module of a surface imports each name when it is first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(surface: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a module that exports lazily.

    Args:
        surface: name of that module. Type checkers read its import statements under ``if TYPE_CHECKING``, which a test
            compares with ``names``.
        names: the exported names, separated by spaces, by the module that defines them.
    """
    homes = {name: module for module, exported in names.items() for name in exported.split()}

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted(homes)
        if name not in homes:
            raise AttributeError(f"module {surface!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[surface], name, value)
        return value

    return __getattr__, lambda: sorted(homes)
