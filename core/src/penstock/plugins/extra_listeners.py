"""The listeners that ``spark.streaming.extraListeners`` names: by dotted path, or by the plugin that offers them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Any

from penstock.errors import ConfigurationError, UnknownNameError, summary_of
from penstock.listen.registered_listener import NO_CALLBACK, RegisteredListener, register

_KEY = "spark.streaming.extraListeners"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def extra_listeners(names: Iterable[str], plugins: Collection[str], context: object) -> list[RegisteredListener]:
    """Import or create the listeners; ``context`` goes to classes and functions that take an argument.

    The listeners of ``plugins``, whose names have no dot, are on the bus already.
    """
    listeners = []
    for name in dict.fromkeys(names):
        if "." in name:
            listeners.append(_import_listener(name, context))
        elif name not in plugins:
            advice = f"It is set by {_KEY}: name a plugin that offers listeners, or give package.module.Class"
            raise UnknownNameError("listener plugin", name, plugins, advice=advice)
    return listeners


def _import_listener(path: str, context: object) -> RegisteredListener:
    module, _, attribute = path.replace(":", ".").rpartition(".")
    # The module and the class are the program's: they may raise anything.
    try:
        target = getattr(import_module(module), attribute)
        if isinstance(target, type) or inspect.isroutine(target):
            target = target(context) if _needs_argument(target) else target()
    except Exception as error:
        raise ConfigurationError(
            f"{_KEY}={path}: {summary_of(error)}; give package.module.Class of a module that the driver can import"
        ) from error
    try:
        return register(target, path)
    except TypeError:
        raise ConfigurationError(f"{_KEY}={path}: {NO_CALLBACK}") from None


def _needs_argument(target: Any) -> bool:
    return any(
        parameter.kind in _POSITIONAL and parameter.default is inspect.Parameter.empty
        for parameter in inspect.signature(target).parameters.values()
    )
