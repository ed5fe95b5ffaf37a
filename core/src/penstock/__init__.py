"""Penstock: micro-batch streaming for Python on Spark, with pluggable receivers.

This module has the public names and nothing else. Each is imported when it is first used: a Python worker that runs an
operator needs none of them, a plugin few.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports
from penstock.version import __version__ as __version__

__getattr__, __dir__ = lazy_exports(__name__)

if TYPE_CHECKING:
    from pyspark import StorageLevel as StorageLevel

    from penstock.blocks.block import Block as Block
    from penstock.blocks.block import StoredBlock as StoredBlock
    from penstock.context import StreamingContext as StreamingContext
    from penstock.context_state import StreamingContextState as StreamingContextState
    from penstock.errors import ConfigurationError as ConfigurationError
    from penstock.errors import PenstockError as PenstockError
    from penstock.errors import ReceiverStoppedError as ReceiverStoppedError
    from penstock.errors import SchemaError as SchemaError
    from penstock.errors import StoreError as StoreError
    from penstock.graph.dataframe_stream import DataFrameStream as DataFrameStream
    from penstock.graph.dataframe_stream import GroupedDataFrameStream as GroupedDataFrameStream
    from penstock.graph.dstream import DStream as DStream
    from penstock.graph.map_with_state import StateSpec as StateSpec
    from penstock.hookspecs import hookimpl as hookimpl
    from penstock.listen.events import BatchCompleted as BatchCompleted
    from penstock.listen.events import BatchInfo as BatchInfo
    from penstock.listen.events import BatchStarted as BatchStarted
    from penstock.listen.events import BatchSubmitted as BatchSubmitted
    from penstock.listen.events import CheckpointFailed as CheckpointFailed
    from penstock.listen.events import OutputOperationCompleted as OutputOperationCompleted
    from penstock.listen.events import OutputOperationInfo as OutputOperationInfo
    from penstock.listen.events import OutputOperationStarted as OutputOperationStarted
    from penstock.listen.events import PastError as PastError
    from penstock.listen.events import ReceiverError as ReceiverError
    from penstock.listen.events import ReceiverInfo as ReceiverInfo
    from penstock.listen.events import ReceiverStarted as ReceiverStarted
    from penstock.listen.events import ReceiverStopped as ReceiverStopped
    from penstock.listen.events import StopProgress as StopProgress
    from penstock.listen.events import StreamingStarted as StreamingStarted
    from penstock.listen.events import StreamInputInfo as StreamInputInfo
    from penstock.listen.registered_listener import ListenerCounts as ListenerCounts
    from penstock.listen.streaming_listener import StreamingListener as StreamingListener
    from penstock.plugins.listener_context import DStreamInfo as DStreamInfo
    from penstock.plugins.listener_context import JobInfo as JobInfo
    from penstock.plugins.listener_context import ListenerContext as ListenerContext
    from penstock.plugins.listener_context import ReceiverStreamInfo as ReceiverStreamInfo
    from penstock.plugins.listener_context import StorageInfo as StorageInfo
    from penstock.plugins.specs import ArrowInput as ArrowInput
    from penstock.plugins.specs import ArrowReader as ArrowReader
    from penstock.plugins.specs import InputSource as InputSource
    from penstock.plugins.specs import InputStreamSpec as InputStreamSpec
    from penstock.plugins.specs import RateEstimator as RateEstimator
    from penstock.plugins.specs import RateEstimatorSpec as RateEstimatorSpec
    from penstock.plugins.specs import ReceiverSpec as ReceiverSpec
    from penstock.plugins.specs import RecoverableSource as RecoverableSource
    from penstock.plugins.specs import SourceBatch as SourceBatch
    from penstock.receive.receiver import Receiver as Receiver
    from penstock.receive.receiver_host import BlockSink as BlockSink
    from penstock.receive.receiver_host import ReceiverHost as ReceiverHost
    from penstock.receive.thread_receiver import AsyncReceiver as AsyncReceiver
    from penstock.receive.thread_receiver import ThreadReceiver as ThreadReceiver
    from penstock.worker.state import State as State
