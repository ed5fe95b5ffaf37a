"""Every hook: the whole plugin contract on one page.

A plugin is a module, a class or an object that an entry point of the group ``penstock`` names. It implements any of
these with ``@penstock.hookimpl``. Hooks are called per plugin, per block or per event, never per record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from penstock.blocks.block import Block, StoredBlock
    from penstock.listen import events
    from penstock.plugins.listener_context import ListenerContext
    from penstock.plugins.specs import InputStreamSpec, RateEstimatorSpec, ReceiverSpec

#: The version of this contract; a plugin may say ``penstock_api = "1"``.
API_VERSION = "1"
#: The entry-point group.
GROUP = "penstock"

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def receivers() -> Iterable[ReceiverSpec]:  # type: ignore[empty-body]  # specs have no bodies
    """Offer receivers. Driver and executors, once."""


@hookspec
def input_streams() -> Iterable[InputStreamSpec]:  # type: ignore[empty-body]
    """Offer sources pulled by the driver. Driver, once."""


@hookspec
def rate_estimators() -> Iterable[RateEstimatorSpec]:  # type: ignore[empty-body]
    """Offer rate estimators. Driver, once."""


@hookspec
def listeners(context: ListenerContext) -> Iterable[Any]:  # type: ignore[empty-body]
    """Offer listeners: objects with any of the ``on…`` methods below. Driver, once, when the context starts."""


@hookspec(firstresult=True)
def store(block: Block) -> StoredBlock | None:
    """Give a block a home. Executor, once a block.

    The core writes it to the executor's local directory, or to the block log when that is on; a plugin may wrap that
    (observe, mirror, refuse by raising) or answer instead. One that changes the file afterwards gives a ``StoredBlock``
    whose ``checksum`` is the file's, or ``None``.
    """


@hookspec
def onStreamingStarted(streamingStarted: events.StreamingStarted) -> None:
    """The context has started. This and all that follow: driver, once an event, on the plugin's own thread."""


@hookspec
def onReceiverStarted(receiverStarted: events.ReceiverStarted) -> None:
    """A receiver registered: for the first time, or after a restart."""


@hookspec
def onReceiverError(receiverError: events.ReceiverError) -> None:
    """A receiver reported an error, or its process died."""


@hookspec
def onReceiverStopped(receiverStopped: events.ReceiverStopped) -> None:
    """A receiver stopped; it may come back."""


@hookspec
def onBatchSubmitted(batchSubmitted: events.BatchSubmitted) -> None:
    """A batch's jobs wait to run."""


@hookspec
def onBatchStarted(batchStarted: events.BatchStarted) -> None:
    """The first job of a batch started."""


@hookspec
def onBatchCompleted(batchCompleted: events.BatchCompleted) -> None:
    """The last job of a batch ended, well or not."""


@hookspec
def onCheckpointFailed(checkpointFailed: events.CheckpointFailed) -> None:
    """Several checkpoints in a row could not be written (``spark.penstock.checkpoint.maxFailures``)."""


@hookspec
def onStopProgress(stopProgress: events.StopProgress) -> None:
    """A step of stopping began, or some of it is done."""


@hookspec
def onOutputOperationStarted(outputOperationStarted: events.OutputOperationStarted) -> None:
    """A job started."""


@hookspec
def onOutputOperationCompleted(outputOperationCompleted: events.OutputOperationCompleted) -> None:
    """A job ended, well or not."""
