"""The listeners that ``spark.streaming.extraListeners`` names: by dotted path, or by the plugin that offers them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Any

from penstock.errors import ConfigurationError, UnknownNameError, summary_of
from penstock.listen.events import HOOK_OF, callbacks_of

_KEY = "spark.streaming.extraListeners"


def extra_listeners(names: Iterable[str], plugins: Collection[str], context: object) -> list[tuple[object, str]]:
    """Import or make the listeners.

    Args:
        names: dotted paths (``package.module.Class``), or names of plugins, which have no dot.
        plugins: the names of the plugins that offer listeners; these have been added already.
        context: the ``ListenerContext``, for classes and functions that take an argument.

    Returns:
        Each listener with the path that names it.

    Raises:
        ConfigurationError: an object cannot be imported or made, or is no listener, or no plugin offers listeners under
            a name.
    """
    found: list[tuple[object, str]] = []
    for name in dict.fromkeys(names):
        if "." in name:
            found.append((_listener(name, context), name))
        elif name not in plugins:
            advice = f"It is set by {_KEY}: name a plugin that offers listeners, or give package.module.Class"
            raise UnknownNameError("listener plugin", name, plugins, advice=advice)
    return found


def _listener(path: str, context: object) -> object:
    module, _, attribute = path.replace(":", ".").rpartition(".")
    try:
        target = getattr(import_module(module), attribute)
        listener = _made(target, context) if isinstance(target, type) or inspect.isroutine(target) else target
        callbacks = callbacks_of(listener)
    # What the module and the class do is the program's: they may raise anything.
    except Exception as error:
        raise ConfigurationError(
            f"{_KEY}={path}: {summary_of(error)}; give package.module.Class of a module that the driver can import"
        ) from error
    if not callbacks:
        raise ConfigurationError(f"{_KEY}={path}: it has none of the methods {', '.join(HOOK_OF.values())}")
    return listener


def _made(target: Any, context: object) -> object:
    """Call a class or function, with the context if it needs an argument."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_one = any(
        each.kind in kinds and each.default is inspect.Parameter.empty
        for each in inspect.signature(target).parameters.values()
    )
    return target(context) if takes_one else target()
