"""Penstock: micro-batch streaming for Python on Spark, with pluggable receivers.

The public names, nothing else. Each is imported when it is first used: a Python worker that runs an operator needs none
of them, a plugin few.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.version import __version__ as __version__

if TYPE_CHECKING:
    from pyspark import StorageLevel

    from penstock.blocks.block import Block, StoredBlock
    from penstock.context import StreamingContext
    from penstock.graph.dstream import DStream
    from penstock.graph.state_spec import StateSpec
    from penstock.hookspecs import hookimpl
    from penstock.listen.events import (
        BatchCompleted,
        BatchInfo,
        BatchStarted,
        BatchSubmitted,
        CheckpointFailed,
        OutputOperationCompleted,
        OutputOperationInfo,
        OutputOperationStarted,
        PastError,
        ReceiverError,
        ReceiverInfo,
        ReceiverStarted,
        ReceiverStopped,
        StopProgress,
        StreamingStarted,
        StreamInputInfo,
    )
    from penstock.listen.stats_report_listener import StatsReportListener
    from penstock.listen.streaming_listener import StreamingListener
    from penstock.plugins.specs import InputStreamSpec, RateEstimator, RateEstimatorSpec, ReceiverSpec
    from penstock.receive.async_receiver import AsyncReceiver
    from penstock.receive.receiver import Receiver
    from penstock.receive.thread_receiver import ThreadReceiver
    from penstock.worker.state import State


#: Public name → its module.
_MODULE_OF = {
    "AsyncReceiver": "penstock.receive.async_receiver",
    "BatchCompleted": "penstock.listen.events",
    "BatchInfo": "penstock.listen.events",
    "BatchStarted": "penstock.listen.events",
    "BatchSubmitted": "penstock.listen.events",
    "Block": "penstock.blocks.block",
    "CheckpointFailed": "penstock.listen.events",
    "DStream": "penstock.graph.dstream",
    "InputStreamSpec": "penstock.plugins.specs",
    "OutputOperationCompleted": "penstock.listen.events",
    "OutputOperationInfo": "penstock.listen.events",
    "OutputOperationStarted": "penstock.listen.events",
    "PastError": "penstock.listen.events",
    "RateEstimator": "penstock.plugins.specs",
    "RateEstimatorSpec": "penstock.plugins.specs",
    "Receiver": "penstock.receive.receiver",
    "ReceiverError": "penstock.listen.events",
    "ReceiverInfo": "penstock.listen.events",
    "ReceiverSpec": "penstock.plugins.specs",
    "ReceiverStarted": "penstock.listen.events",
    "ReceiverStopped": "penstock.listen.events",
    "State": "penstock.worker.state",
    "StateSpec": "penstock.graph.state_spec",
    "StatsReportListener": "penstock.listen.stats_report_listener",
    "StopProgress": "penstock.listen.events",
    "StorageLevel": "pyspark",
    "StoredBlock": "penstock.blocks.block",
    "StreamInputInfo": "penstock.listen.events",
    "StreamingContext": "penstock.context",
    "StreamingListener": "penstock.listen.streaming_listener",
    "StreamingStarted": "penstock.listen.events",
    "ThreadReceiver": "penstock.receive.thread_receiver",
    "hookimpl": "penstock.hookspecs",
}

__all__ = [
    "AsyncReceiver",
    "BatchCompleted",
    "BatchInfo",
    "BatchStarted",
    "BatchSubmitted",
    "Block",
    "CheckpointFailed",
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
    "StopProgress",
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
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value
