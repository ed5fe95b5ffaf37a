"""``RegisteredListener``: the bus's uniform wrapper of a listener of any origin. Imports no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from penstock.listen.events import HOOK_OF
from penstock.listen.streaming_listener import is_streaming_listener, with_view

Callback = Callable[[Any], object]
#: The reason why an object is not a listener.
NO_CALLBACK = f"it has none of the methods {', '.join(HOOK_OF.values())}"


@frozen(eq=False)
class RegisteredListener:
    """A listener as the bus calls it: the offered object, and a callback for each class of events that it handles.

    ``origin`` is the plugin with distribution and version, or the class; ``never_drop`` makes its queue unbounded.
    """

    target: object
    origin: str
    callbacks: Mapping[type, Callback]
    never_drop: bool


@frozen
class ListenerCounts:
    """A listener on the bus, with counts of its lost and failed events.

    Attributes:
        name: the plugin with distribution and version, or the class.
        dropped: events that the listener lost because its queue was full.
        failed: events on which it raised.
        disabled: whether the bus has stopped delivering events to it.
    """

    name: str
    dropped: int
    failed: int
    disabled: bool


def register(target: object, origin: str = "", hooks: Mapping[str, Callback] | None = None) -> RegisteredListener:
    """Adapt an object with ``on…`` methods to the bus; of a plugin, ``hooks`` has the callbacks by name instead.

    ``origin`` is the plugin or path that offered it; its class by default.

    Raises:
        TypeError: there is no callback.
    """
    callbacks: dict[type, Callback] = {}
    for kind, name in HOOK_OF.items():
        callback = getattr(target, name, None) if hooks is None else hooks.get(name)
        if callable(callback):
            callbacks[kind] = with_view(callback) if hooks is None and is_streaming_listener(target) else callback
    if not callbacks:
        raise TypeError(f"{type(target).__name__} is not a listener: {NO_CALLBACK}")
    origin = origin or f"{type(target).__module__}.{type(target).__qualname__}"
    return RegisteredListener(target, origin, callbacks, bool(getattr(target, "never_drop", False)))
