"""The error of modules that have left the core: it names their new home, and what to install."""

from __future__ import annotations

import importlib.util

from penstock.errors import plugin_distribution

# Two that did not become the plugin of their own name.
_MERGED = {"helpers": "spi", "launch": "cli"}


def moved(old: str) -> ModuleNotFoundError:
    """The error to raise when a module of the old layout, such as ``penstock.helpers``, is imported."""
    core, _, part = old.partition(".")
    part = _MERGED.get(part, part)
    if part == "spi":
        return ModuleNotFoundError(f"{old} moved to {core}.{part}: change the import", name=f"{core}.{part}")
    new = f"{core}_{part}"
    install = "" if importlib.util.find_spec(new) else f", and pip install {plugin_distribution(part)}"
    # Named after the missing module: `from penstock import` hides the error of the one that it looks for.
    return ModuleNotFoundError(f"{old} moved to {new}: change the import{install}", name=new)
