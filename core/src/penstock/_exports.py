"""Lazy public names: a module of a surface imports each name when it is first used (PEP 562)."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy_exports(
    surface: str, gone: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a module that exports lazily.

    As for type checkers, the exports are the imports ``from ... import name as name`` in the module's source. Imports
    under ``if TYPE_CHECKING`` happen at the first use of the name.

    Args:
        surface: name of that module.
        gone: names that were once exported, and what to use instead.
    """
    homes = _exported_imports(surface)

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


def _exported_imports(surface: str) -> dict[str, str]:
    """The module that defines each name, by name."""
    nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[surface])))
    imports = [(node.module, node.names) for node in nodes if isinstance(node, ast.ImportFrom)]
    exports = {alias.name: str(module) for module, names in imports for alias in names if alias.name == alias.asname}
    return {name: module for name, module in exports.items() if not name.startswith("_")}
