"""Penstock: micro-batch streaming for Python on Spark, with pluggable receivers.

This module has the public names and nothing else. Each is imported when it is first used: a Python worker that runs an
operator needs none of them, a plugin few.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports
from penstock.version import __version__ as __version__

_GONE = {
    "RelaunchingReceiverHost": "give ReceiverHost a function that creates the receiver",
    "StatsReportListener": "it is in a plugin, pip install penstock-spark",
}
__getattr__, __dir__ = lazy_exports(__name__, _GONE)

if TYPE_CHECKING:
    from pyspark import StorageLevel as StorageLevel

    from penstock.blocks.block import Block as Block, StoredBlock as StoredBlock
    from penstock.context import StreamingContext as StreamingContext
    from penstock.context_state import StreamingContextState as StreamingContextState
    from penstock.errors import (
        BatchFailedError as BatchFailedError,
        CheckpointError as CheckpointError,
        ConfigurationError as ConfigurationError,
        PenstockError as PenstockError,
        ReceiverFailedError as ReceiverFailedError,
        ReceiverStoppedError as ReceiverStoppedError,
        SchemaError as SchemaError,
        StoreError as StoreError,
        StreamingStateError as StreamingStateError,
    )
    from penstock.graph.dataframe_stream import (
        DataFrameStream as DataFrameStream,
        GroupedDataFrameStream as GroupedDataFrameStream,
        GroupedDStream as GroupedDStream,
    )
    from penstock.graph.dstream import DStream as DStream
    from penstock.graph.state_spec import StateSpec as StateSpec
    from penstock.hookspecs import StreamingListener as StreamingListener, hookimpl as hookimpl
    from penstock.listen.events import (
        BatchCompleted as BatchCompleted,
        BatchInfo as BatchInfo,
        BatchStarted as BatchStarted,
        BatchSubmitted as BatchSubmitted,
        CheckpointFailed as CheckpointFailed,
        OutputMetadata as OutputMetadata,
        OutputOperationCompleted as OutputOperationCompleted,
        OutputOperationInfo as OutputOperationInfo,
        OutputOperationStarted as OutputOperationStarted,
        PastError as PastError,
        ReceiverError as ReceiverError,
        ReceiverInfo as ReceiverInfo,
        ReceiverStarted as ReceiverStarted,
        ReceiverStopped as ReceiverStopped,
        SourceStatus as SourceStatus,
        StopProgress as StopProgress,
        StoreTimes as StoreTimes,
        StreamingStarted as StreamingStarted,
        StreamInputInfo as StreamInputInfo,
    )
    from penstock.listen.registered_listener import ListenerCounts as ListenerCounts
    from penstock.plugins.listener_context import (
        DStreamInfo as DStreamInfo,
        ListenerContext as ListenerContext,
        ReceiverStreamInfo as ReceiverStreamInfo,
        StorageInfo as StorageInfo,
    )
    from penstock.plugins.specs import (
        ArrowInput as ArrowInput,
        ArrowReader as ArrowReader,
        DatedSource as DatedSource,
        InputSource as InputSource,
        InputStreamSpec as InputStreamSpec,
        RateEstimator as RateEstimator,
        RateEstimatorSpec as RateEstimatorSpec,
        ReceiverSpec as ReceiverSpec,
        RecoverableSource as RecoverableSource,
        SourceBatch as SourceBatch,
    )
    from penstock.receive.receiver import Receiver as Receiver
    from penstock.receive.receiver_host import BlockSink as BlockSink, ReceiverHost as ReceiverHost
    from penstock.receive.thread_receiver import AsyncReceiver as AsyncReceiver, ThreadReceiver as ThreadReceiver
    from penstock.worker.state import State as State
