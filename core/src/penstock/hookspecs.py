"""Every hook: the whole plugin contract on one page. The callbacks of ``StreamingListener`` are hooks as well.

A plugin is a module, class or object named by an entry point of the group ``penstock``. It implements any of these
hooks with ``@penstock.hookimpl``. Hooks are called per plugin, per block or per event, never per record. Three
attributes of that object are optional. ``penstock_api`` is the version of this contract. ``penstock_options`` is a
dictionary from prefixes of configuration keys to options classes, for listeners that call ``ListenerContext.options``.
``penstock_production`` is a dictionary from configuration keys to their defaults in the profile ``production``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from penstock.blocks.block import Block, StoredBlock
    from penstock.graph.dataframe_stream import DataFrameStream
    from penstock.graph.dstream import DStream
    from penstock.graph.state_spec import StateOptions, WindowOptions
    from penstock.listen import events
    from penstock.plugins.listener_context import ListenerContext
    from penstock.plugins.specs import InputStreamSpec, RateEstimatorSpec, ReceiverSpec

#: The version of this contract; a plugin may declare ``penstock_api = "1"``.
API_VERSION = "1"
#: The entry-point group.
GROUP = "penstock"

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def receivers() -> Iterable[ReceiverSpec]:  # type: ignore[empty-body]  # specs have no bodies
    """Offer receivers. Called once on the driver, and once on each executor that runs a receiver."""


@hookspec
def input_streams() -> Iterable[InputStreamSpec]:  # type: ignore[empty-body]
    """Offer input streams that the driver pulls from. Called once on the driver."""


@hookspec
def rate_estimators() -> Iterable[RateEstimatorSpec]:  # type: ignore[empty-body]
    """Offer rate estimators. Called once on the driver."""


@hookspec
def listeners(context: ListenerContext) -> Iterable[Any]:  # type: ignore[empty-body]
    """Offer listeners: objects with any of the ``on…`` methods below. Called once on the driver, at the start.

    Lists of plugins show the classes in the return annotation, such as ``Iterable[AlertListener]``.
    """


@hookspec(firstresult=True)
def store(block: Block, configuration: Mapping[str, str]) -> StoredBlock | None:
    """Store a block. Called on the executor, once per block.

    The core's implementation writes it to the executor's local directory, or to the receiver write-ahead log if that is
    enabled. A plugin may wrap it (observe, mirror, refuse by raising) or answer instead. A plugin that changes the file
    afterwards must return a ``StoredBlock`` with the new file's ``checksum``, or ``None`` as its checksum.
    ``configuration`` has the keys below ``spark.penstock.`` and ``spark.streaming.``; it may contain secrets.
    """


@hookspec(firstresult=True)
def dataframes(stream: DStream[Any], schema: DataType | str | None) -> DataFrameStream | None:
    """Return the batches of a stream as DataFrames. Called on the driver, once per call of ``DStream.toDF``.

    The implementation adds nodes to the stream's graph: classes derived from ``penstock.spi.Node``. If two plugins have
    one, ``spark.penstock.plugins.prefer`` decides.
    """


@hookspec(firstresult=True)
def columns(stream: DStream[Any], operator: str, arguments: tuple[Any, ...]) -> Any:
    """Return the result of an operator on columns. Called on the driver, once per call of the operator of ``DStream``.

    The operators are ``mapInArrow``, ``mapInPandas``, ``groupBy`` and ``foreachTable``.
    """


@hookspec(firstresult=True)
def state(stream: DStream[Any], operator: str, options: StateOptions | WindowOptions) -> DStream[Any] | None:
    """Return a stream of states or windows per key. Called on the driver, once per call of such an operator.

    The operator is ``updateStateByKey``; ``mapWithState``, whose stream is a ``penstock.spi.MapWithStateDStream``; or
    ``reduceByKeyAndWindow`` or ``groupByKeyAndWindow``, of a stream whose node is a ``penstock.spi.ShuffledDStream``.
    The implementation adds nodes to the stream's graph: of states, classes derived from
    ``penstock.spi.StatefulDStream``. If two plugins have one, ``spark.penstock.plugins.prefer`` decides.
    """


class StreamingListener:
    """Derive from it, override callbacks, and pass an instance to ``StreamingContext.addStreamingListener``.

    There are Spark's nine callbacks, ``onCheckpointFailed`` and ``onStopProgress``. They run on the driver, on the
    listener's own thread, one at a time. Each gets a view of its event: attributes as annotated, and PySpark's methods.
    ``pyspark.streaming.StreamingListener`` subclasses get the same view. A plugin implements the same names as hooks:
    they get the event itself, on a thread that the plugin's hooks have to themselves.

    Attributes:
        never_drop: whether the queue of its events is unbounded. Otherwise events are dropped, counted and logged while
            ``spark.penstock.listener.queueSize`` of them wait.
    """

    never_drop = False

    @hookspec
    def onStreamingStarted(self, streamingStarted: events.StreamingStarted) -> None:
        """The context has started."""

    @hookspec
    def onReceiverStarted(self, receiverStarted: events.ReceiverStarted) -> None:
        """A receiver registered: for the first time, after a restart or after a relaunch."""

    @hookspec
    def onReceiverError(self, receiverError: events.ReceiverError) -> None:
        """A receiver reported an error, or its process died."""

    @hookspec
    def onReceiverStopped(self, receiverStopped: events.ReceiverStopped) -> None:
        """A receiver stopped; it may be relaunched."""

    @hookspec
    def onBatchSubmitted(self, batchSubmitted: events.BatchSubmitted) -> None:
        """A batch's jobs were submitted and wait to run."""

    @hookspec
    def onBatchStarted(self, batchStarted: events.BatchStarted) -> None:
        """The first job of a batch started."""

    @hookspec
    def onBatchCompleted(self, batchCompleted: events.BatchCompleted) -> None:
        """The last job of a batch ended, successfully or not."""

    @hookspec
    def onCheckpointFailed(self, checkpointFailed: events.CheckpointFailed) -> None:
        """Three consecutive checkpoints could not be written."""

    @hookspec
    def onStopProgress(self, stopProgress: events.StopProgress) -> None:
        """The context entered a phase of stopping, or one of the remaining batches completed."""

    @hookspec
    def onOutputOperationStarted(self, outputOperationStarted: events.OutputOperationStarted) -> None:
        """The job of an output operation started."""

    @hookspec
    def onOutputOperationCompleted(self, outputOperationCompleted: events.OutputOperationCompleted) -> None:
        """The job of an output operation ended, successfully or not."""
