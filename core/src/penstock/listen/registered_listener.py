"""``RegisteredListener``: the bus's uniform wrapper of a listener of any origin. Imports no Spark.

A streaming listener gets a view of each event, which reads it in both styles: attributes
(``event.batchInfo.processingDelay``, ``None`` when unknown) and PySpark's methods
(``event.batchInfo().processingDelay()``, -1 when unknown).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen, has

from penstock.listen.events import HOOK_OF

Callback = Callable[[Any], object]
#: The reason why an object is not a listener.
NO_CALLBACK = f"it has none of the methods {', '.join(HOOK_OF.values())}"
# Compared by name: the first is above this layer, and importing the second would delay programs that do not use it.
_STREAMING_LISTENERS = ("penstock.hookspecs.StreamingListener", "pyspark.streaming.listener.StreamingListener")


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
            callbacks[kind] = _with_view(callback) if hooks is None and is_streaming_listener(target) else callback
    if not callbacks:
        raise TypeError(f"{type(target).__name__} is not a listener: {NO_CALLBACK}")
    origin = origin or f"{type(target).__module__}.{type(target).__qualname__}"
    return RegisteredListener(target, origin, callbacks, bool(getattr(target, "never_drop", False)))


def is_streaming_listener(target: object) -> bool:
    """Whether an object derives from Penstock's StreamingListener or from PySpark's, and so gets views of events."""
    return any(f"{base.__module__}.{base.__qualname__}" in _STREAMING_LISTENERS for base in type(target).__mro__)


def _with_view(callback: Callback) -> Callback:
    return lambda event: callback(EventView(event))


@frozen
class _Time:
    """A batch time in the form that PySpark's listeners receive."""

    _ms: int

    def milliseconds(self) -> int:
        return self._ms

    def __str__(self) -> str:
        return f"{self._ms} ms"


class _View:
    """Another reading of an object's attributes."""

    __slots__ = ("_object",)

    def __init__(self, viewed: object) -> None:
        self._object = viewed

    def __getattr__(self, name: str) -> Any:
        # While a view is copied, its slot is empty and this method is asked for it.
        if name.startswith("_"):
            raise AttributeError(name)
        return self._read(name, getattr(self._object, name))

    def _read(self, _name: str, value: Any) -> Any:
        return value

    def __repr__(self) -> str:
        return repr(self._object)


class EventView(_View):
    """An event as a streaming listener gets it: each field is an attribute and a method."""

    __slots__ = ()

    def _read(self, _name: str, value: Any) -> Any:
        # The only plain field of an event is StreamingStarted's time.
        return _CallableInt(value) if type(value) is int else _Info(value)


class _CallableInt(int):
    def __call__(self) -> int:
        return int(self)


class _Info(_View):
    """An info inside an event: has its attributes, and PySpark's methods once it is called."""

    __slots__ = ()

    def __call__(self) -> _JavaInfo:
        return _JavaInfo(self._object)


class _JavaInfo(_View):
    """An info as PySpark has it: every field is a method, -1 for an unknown number."""

    __slots__ = ()

    def _read(self, name: str, value: Any) -> Any:
        return lambda: _as_java(name, value)


def _as_java(name: str, value: Any) -> Any:
    if value is None:
        return None if name in {"failureReason", "metadataDescription", "succeeded"} else -1
    if name == "batchTime":
        return _Time(value)
    if isinstance(value, Mapping):
        return {key: _JavaInfo(item) if has(type(item)) else item for key, item in value.items()}
    return value
