"""An event view is read as attributes and as PySpark's methods."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    BatchCompleted,
    BatchInfo,
    BatchSubmitted,
    OutputOperationCompleted,
    OutputOperationInfo,
    ReceiverError,
    ReceiverInfo,
    StreamingListener,
    StreamingStarted,
    StreamInputInfo,
)
from penstock.listen.events import HOOK_OF
from penstock.listen.registered_listener import EventView

OPERATION = OutputOperationInfo(1000, 0, "pprint at app.py:3", "pprint at /app.py:3", 1050, 1350, "Traceback …")
COMPLETED = BatchInfo(1000, {0: StreamInputInfo(0, 3, {"files": ["a"]})}, 1010, 1050, 1350, {0: OPERATION})
SUBMITTED = BatchInfo(1000, {}, 1010, None, None, {0: OutputOperationInfo(1000, 0, "n", "d")})


def view(event: object) -> Any:
    return EventView(event)


def test_base_class_has_every_callback_and_does_nothing() -> None:
    listener = StreamingListener()
    for hook in HOOK_OF.values():
        assert getattr(listener, hook)(object()) is None


def test_view_has_the_attributes_of_the_event() -> None:
    info = view(BatchCompleted(COMPLETED)).batchInfo
    assert (info.batchTime, info.submissionTime, info.processingStartTime, info.processingEndTime) == (
        1000,
        1010,
        1050,
        1350,
    )
    assert (info.schedulingDelay, info.processingDelay, info.totalDelay, info.numRecords) == (40, 300, 340, 3)
    assert info.streamIdToInputInfo[0].numRecords == 3
    assert info.outputOperationInfos[0].failureReason == "Traceback …"


def test_unknown_number_is_none_as_an_attribute() -> None:
    info = view(BatchSubmitted(SUBMITTED)).batchInfo
    assert (info.processingStartTime, info.processingEndTime) == (None, None)
    assert (info.schedulingDelay, info.processingDelay, info.totalDelay) == (None, None, None)


def test_view_has_pysparks_methods() -> None:
    info = view(BatchCompleted(COMPLETED)).batchInfo()
    assert info.batchTime().milliseconds() == 1000
    assert str(info.batchTime()) == "1000 ms"
    assert (info.submissionTime(), info.processingStartTime(), info.processingEndTime()) == (1010, 1050, 1350)
    assert (info.schedulingDelay(), info.processingDelay(), info.totalDelay(), info.numRecords()) == (40, 300, 340, 3)


def test_unknown_number_is_minus_one_as_a_method() -> None:
    info = view(BatchSubmitted(SUBMITTED)).batchInfo()
    assert (info.processingStartTime(), info.processingEndTime()) == (-1, -1)
    assert (info.schedulingDelay(), info.processingDelay(), info.totalDelay()) == (-1, -1, -1)
    operation = info.outputOperationInfos()[0]
    assert (operation.startTime(), operation.endTime(), operation.duration()) == (-1, -1, -1)
    assert operation.failureReason() is None


def test_maps_hold_infos_with_methods() -> None:
    info = view(BatchCompleted(COMPLETED)).batchInfo()
    stream = info.streamIdToInputInfo()[0]
    assert (stream.inputStreamId(), stream.numRecords(), stream.metadata()) == (0, 3, {"files": ["a"]})
    assert stream.metadataDescription() is None
    operation = info.outputOperationInfos()[0]
    assert (operation.id(), operation.name(), operation.description()) == (
        0,
        "pprint at app.py:3",
        "pprint at /app.py:3",
    )
    assert operation.batchTime().milliseconds() == 1000
    assert (operation.startTime(), operation.endTime(), operation.duration()) == (1050, 1350, 300)
    assert operation.failureReason() == "Traceback …"


def test_output_operation_event_can_be_viewed() -> None:
    event = view(OutputOperationCompleted(OPERATION))
    assert event.outputOperationInfo.duration == event.outputOperationInfo().duration() == 300


def test_receiver_info_reads_as_attributes_and_methods() -> None:
    event = view(ReceiverError(ReceiverInfo(3, "R-3", True, "host", "1", "boom", "Traceback …", 99)))
    assert (event.receiverInfo.streamId, event.receiverInfo.active, event.receiverInfo.lastErrorTime) == (3, True, 99)
    info = event.receiverInfo()
    assert (info.streamId(), info.name(), info.active(), info.location(), info.executorId()) == (
        3,
        "R-3",
        True,
        "host",
        "1",
    )
    assert (info.lastErrorMessage(), info.lastError(), info.lastErrorTime()) == ("boom", "Traceback …", 99)


def test_start_time_reads_as_attribute_and_method() -> None:
    event = view(StreamingStarted(5))
    assert event.time == event.time() == 5
    assert isinstance(event.time, int)


def test_unknown_attribute_raises_attribute_error() -> None:
    event = view(BatchCompleted(COMPLETED))
    for part in (event, event.batchInfo, event.batchInfo()):
        with pytest.raises(AttributeError, match="delay"):
            part.delay  # noqa: B018  # reading it is the test


def test_view_prints_as_its_event() -> None:
    event = StreamingStarted(5)
    assert repr(view(event)) == repr(event)
    assert repr(view(BatchCompleted(COMPLETED)).batchInfo()) == repr(COMPLETED)


@pytest.mark.parametrize(
    "part",
    [lambda event: event, lambda event: event.batchInfo, lambda event: event.batchInfo()],
    ids=["event", "attribute", "method"],
)
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda event: pickle.loads(pickle.dumps(event))],
    ids=["copy", "deep", "pickle"],
)
def test_listener_may_copy_and_pickle_the_view(copied: Callable[[Any], Any], part: Callable[[Any], Any]) -> None:
    seen = part(view(BatchSubmitted(SUBMITTED)))
    assert repr(copied(seen)) == repr(seen)
