"""``StreamingListener``: the base class of a program's listeners, and the view of events that they get.

The view reads an event in both styles: attributes (``event.batchInfo.processingDelay``, ``None`` when unknown) and
PySpark's methods (``event.batchInfo().processingDelay()``, -1 when unknown).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen, has

from penstock.listen import events


class StreamingListener:
    """Derive from it, override callbacks, and pass an instance to ``StreamingContext.addStreamingListener``.

    There are Spark's nine callbacks, ``onCheckpointFailed`` and ``onStopProgress``. They run on the listener's own
    thread, one at a time. Each gets a view of its event: attributes as annotated, and PySpark's methods.
    ``pyspark.streaming.StreamingListener`` subclasses get the same view.

    Attributes:
        never_drop: whether the queue of its events is unbounded. Otherwise events are dropped, counted and logged while
            ``spark.penstock.listener.queueSize`` of them wait.
    """

    never_drop = False

    def onStreamingStarted(self, streamingStarted: events.StreamingStarted) -> None:
        """The context has started."""

    def onReceiverStarted(self, receiverStarted: events.ReceiverStarted) -> None:
        """A receiver registered: for the first time, after a restart or after a relaunch."""

    def onReceiverError(self, receiverError: events.ReceiverError) -> None:
        """A receiver reported an error, or its process died."""

    def onReceiverStopped(self, receiverStopped: events.ReceiverStopped) -> None:
        """A receiver stopped; it may be relaunched."""

    def onBatchSubmitted(self, batchSubmitted: events.BatchSubmitted) -> None:
        """A batch's jobs were submitted and wait to run."""

    def onBatchStarted(self, batchStarted: events.BatchStarted) -> None:
        """The first job of a batch started."""

    def onBatchCompleted(self, batchCompleted: events.BatchCompleted) -> None:
        """The last job of a batch ended, successfully or not."""

    def onCheckpointFailed(self, checkpointFailed: events.CheckpointFailed) -> None:
        """Several consecutive checkpoints could not be written."""

    def onStopProgress(self, stopProgress: events.StopProgress) -> None:
        """The context entered a phase of stopping, or a batch of the remaining ones completed."""

    def onOutputOperationStarted(self, outputOperationStarted: events.OutputOperationStarted) -> None:
        """The job of an output operation started."""

    def onOutputOperationCompleted(self, outputOperationCompleted: events.OutputOperationCompleted) -> None:
        """The job of an output operation ended, successfully or not."""


def is_streaming_listener(target: object) -> bool:
    """Whether an object derives from this StreamingListener or from PySpark's, and so gets views of events."""
    # Compared by name, because importing pyspark.streaming would delay programs without such a listener.
    pysparks = ("pyspark.streaming.listener", "StreamingListener")
    return isinstance(target, StreamingListener) or any(
        (base.__module__, base.__qualname__) == pysparks for base in type(target).__mro__
    )


def with_view(callback: Callable[[Any], object]) -> Callable[[object], object]:
    """The callback of a streaming listener as the bus calls it, with an event."""
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
