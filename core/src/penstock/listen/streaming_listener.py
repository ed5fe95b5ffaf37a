"""``StreamingListener``: the class PySpark programs derive their listeners from.

Owns the empty callbacks, Spark's nine and two of Penstock's, and the view that lets one listener read an event both
ways: as attributes (``event.batchInfo.processingDelay``, ``None`` when unknown) and as PySpark's methods
(``event.batchInfo().processingDelay()``, -1 when unknown). Callbacks run on the listener's own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen, has


class StreamingListener:
    """Derive from this, override what matters, hand it to ``StreamingContext.addStreamingListener``.

    Each callback gets a view of the event that can be read in both ways (see above).
    """

    def onStreamingStarted(self, streamingStarted: Any) -> None:
        """The context has started."""

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        """A receiver registered."""

    def onReceiverError(self, receiverError: Any) -> None:
        """A receiver reported an error, or its process died."""

    def onReceiverStopped(self, receiverStopped: Any) -> None:
        """A receiver stopped."""

    def onBatchSubmitted(self, batchSubmitted: Any) -> None:
        """A batch's jobs wait to run."""

    def onBatchStarted(self, batchStarted: Any) -> None:
        """The first job of a batch started."""

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        """The last job of a batch ended."""

    def onCheckpointFailed(self, checkpointFailed: Any) -> None:
        """Several checkpoints in a row could not be written."""

    def onStopProgress(self, stopProgress: Any) -> None:
        """A step of stopping began, or some of it is done."""

    def onOutputOperationStarted(self, outputOperationStarted: Any) -> None:
        """A job started."""

    def onOutputOperationCompleted(self, outputOperationCompleted: Any) -> None:
        """A job ended."""


@frozen
class Time:
    """A batch time, as PySpark's listeners see it."""

    _ms: int

    def milliseconds(self) -> int:
        """Milliseconds since the epoch."""
        return self._ms

    def __str__(self) -> str:
        """As Spark prints it."""
        return f"{self._ms} ms"


class EventView:
    """An event for a ``StreamingListener``: each field is an attribute and a method.

    Args:
        event: what is viewed.
    """

    __slots__ = ("_event",)

    def __init__(self, event: object) -> None:
        self._event = event

    def __getattr__(self, name: str) -> Any:
        value = getattr(_viewed(self, "_event", name), name)
        # The only plain field of an event is StreamingStarted's time.
        return _CallableInt(value) if type(value) is int else _Field(value)

    def __repr__(self) -> str:
        """The event's own."""
        return repr(self._event)


class _CallableInt(int):
    def __call__(self) -> int:
        return int(self)


class _Field:
    """An info inside an event: attributes as they are, and PySpark's methods once it is called."""

    __slots__ = ("_info",)

    def __init__(self, info: object) -> None:
        self._info = info

    def __getattr__(self, name: str) -> Any:
        return getattr(_viewed(self, "_info", name), name)

    def __call__(self) -> _JavaView:
        return _JavaView(self._info)

    def __repr__(self) -> str:
        return repr(self._info)


class _JavaView:
    """An info as PySpark gives it: every field a method, -1 for an unknown number."""

    __slots__ = ("_info",)

    def __init__(self, info: object) -> None:
        self._info = info

    def __getattr__(self, name: str) -> Callable[[], Any]:
        value = getattr(_viewed(self, "_info", name), name)
        return lambda: _as_java(name, value)

    def __repr__(self) -> str:
        return repr(self._info)

    __str__ = __repr__


def _viewed(view: object, slot: str, name: str) -> object:
    """What a view views. While it is copied the slot is empty and asked for: that must not ask for itself."""
    if name.startswith("_"):
        raise AttributeError(name)
    return object.__getattribute__(view, slot)


def _as_java(name: str, value: Any) -> Any:
    if value is None:
        return None if name in {"failureReason", "metadataDescription", "succeeded"} else -1
    if name == "batchTime":
        return Time(value)
    if isinstance(value, Mapping):
        return {key: _JavaView(item) if has(type(item)) else item for key, item in value.items()}
    return value
