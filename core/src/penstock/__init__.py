"""Penstock: micro-batch streaming for Python on Spark, with pluggable receivers.

The public names, nothing else. Those that need Spark are imported when they are first used, so that a plugin's import
stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.blocks.block import Block, StoredBlock
from penstock.hookspecs import hookimpl
from penstock.listen.events import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    OutputOperationCompleted,
    OutputOperationInfo,
    OutputOperationStarted,
    PastError,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    StreamingStarted,
    StreamInputInfo,
)
from penstock.listen.stats_report_listener import StatsReportListener
from penstock.listen.streaming_listener import StreamingListener
from penstock.receive.async_receiver import AsyncReceiver
from penstock.receive.receiver import Receiver
from penstock.receive.thread_receiver import ThreadReceiver
from penstock.specs import InputStreamSpec, RateEstimator, RateEstimatorSpec, ReceiverSpec

if TYPE_CHECKING:
    from pyspark import StorageLevel

    from penstock.context import StreamingContext
    from penstock.graph.dstream import DStream
    from penstock.graph.state_spec import State, StateSpec

__version__ = "0.1.0"

_LAZY = {
    "DStream": "penstock.graph.dstream",
    "State": "penstock.graph.state_spec",
    "StateSpec": "penstock.graph.state_spec",
    "StorageLevel": "pyspark",
    "StreamingContext": "penstock.context",
}

__all__ = [
    "AsyncReceiver",
    "BatchCompleted",
    "BatchInfo",
    "BatchStarted",
    "BatchSubmitted",
    "Block",
    "DStream",
    "InputStreamSpec",
    "OutputOperationCompleted",
    "OutputOperationInfo",
    "OutputOperationStarted",
    "PastError",
    "RateEstimator",
    "RateEstimatorSpec",
    "Receiver",
    "ReceiverError",
    "ReceiverInfo",
    "ReceiverSpec",
    "ReceiverStarted",
    "ReceiverStopped",
    "State",
    "StateSpec",
    "StatsReportListener",
    "StorageLevel",
    "StoredBlock",
    "StreamInputInfo",
    "StreamingContext",
    "StreamingListener",
    "StreamingStarted",
    "ThreadReceiver",
    "hookimpl",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
