"""The error of modules that have left the core: it names their new home, and what to install."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec

from penstock.errors import plugin_distribution

# Two that did not become the plugin of their own name.
_MERGED = {"helpers": "spi", "launch": "cli"}


def moved(spec: ModuleSpec) -> BaseException:
    """The error to raise when a module of the old layout, such as ``penstock.helpers``, is imported or run."""
    core, _, part = spec.name.partition(".")
    part = _MERGED.get(part, part)
    new = f"{core}.spi" if part == "spi" else f"{core}_{part}"
    is_missing = part != "spi" and not importlib.util.find_spec(new)
    install = f", and pip install {plugin_distribution(part)}" if is_missing else ""
    # `python -m` runs a module under another name, and needs no traceback.
    is_run = sys.modules["__main__"].__spec__ is spec
    text = f"{spec.name} moved to {new}: change the {'command' if is_run else 'import'}{install}"
    # Named after the missing module: `from penstock import` hides the error of the one that it looks for.
    return SystemExit(text) if is_run else ModuleNotFoundError(text, name=new)
