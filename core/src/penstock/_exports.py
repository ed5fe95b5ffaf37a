"""Lazy public names: a module of a surface imports each name when it is first used (PEP 562)."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

_EXPORT = re.compile(r"^ *from (\S+) import ([^\W_]\w*) as \2$", re.MULTILINE)


def lazy_exports(surface: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a module that exports lazily.

    Its source lists the names once, in the form that type checkers take for an export: ``from home import name as
    name``, one per line, most of them under ``if TYPE_CHECKING:``.
    """

    @cache
    def homes() -> dict[str, str]:
        module = sys.modules[surface]
        source = linecache.getlines(str(module.__file__), vars(module))
        return {name: home for home, name in _EXPORT.findall("".join(source))}

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {surface!r} has no attribute {name!r}")
        value = getattr(import_module(homes()[name]), name)
        setattr(sys.modules[surface], name, value)
        return value

    return __getattr__, lambda: sorted(homes())
