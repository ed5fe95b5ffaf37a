"""Lazy public names: a module of a surface imports each name when it is first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy_exports(
    surface: str, names: Mapping[str, str], gone: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a module that exports lazily.

    Args:
        surface: name of that module. Type checkers read its import statements under ``if TYPE_CHECKING``, which a test
            compares with ``names``.
        gone: names that were once exported, and what to use instead.
        names: the exported names, separated by spaces, by the module that defines them.
    """
    homes = {name: module for module, exported in names.items() for name in exported.split()}

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted(homes)
        if name in gone:
            # `from ... import` hides the text of an AttributeError.
            raise ImportError(f"{surface}.{name} is gone: {gone[name]}", name=surface)
        if name not in homes:
            raise AttributeError(f"module {surface!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[surface], name, value)
        return value

    return __getattr__, lambda: sorted(homes)
