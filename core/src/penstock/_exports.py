"""Lazy public names for a package whose ``__init__.py`` lists them once, where type checkers read them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def lazy_exports(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a module that exports lazily.

    What it exports are the names of its statements ``from ... import Name as Name``, which stand under
    ``if TYPE_CHECKING`` and so are never executed. They are read from the module's source when a name is first used.
    """

    @cache
    def homes() -> dict[str, str]:
        imports = [node for node in ast.walk(ast.parse(_source(module))) if isinstance(node, ast.ImportFrom)]
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


def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        return ""
    if hasattr(spec.loader, "get_source"):  # from an archive, too
        return spec.loader.get_source(module) or ""
    # pytest's loader, which rewrites assertions in a distribution that has a pytest plugin.
    return Path(spec.origin).read_text("utf-8") if spec.origin else ""
