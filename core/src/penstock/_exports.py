"""Lazy public names for a package whose ``__init__.py`` lists them once, where type checkers read them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_exports(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a module that exports lazily.

    What it exports are the names of its statements ``from ... import Name as Name``, which stand under
    ``if TYPE_CHECKING`` and so are never executed. They are read from the module's source when a name is first used.
    """

    @cache
    def homes() -> dict[str, str]:
        spec = find_spec(module)
        # Not get_source: the loader with which pytest rewrites assertions has none.
        source = spec.loader.get_data(spec.origin) if spec is not None and spec.loader is not None else b""  # type: ignore[attr-defined]  # ResourceLoader
        imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
        return {name.name: str(node.module) for node in imports for name in node.names if name.asname == name.name}

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        if name.startswith("_") or name not in homes():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(homes()[name]), name)
        setattr(import_module(module), name, value)
        return value

    return __getattr__, lambda: sorted(homes())
