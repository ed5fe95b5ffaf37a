"""Events and infos: Spark's names, and the derived properties."""

import attrs
import pytest

from penstock import (
    BatchCompleted,
    BatchInfo,
    OutputOperationInfo,
    ReceiverInfo,
    StreamingListener,
    StreamingStarted,
    StreamInputInfo,
)
from penstock.listen.events import HOOK_OF
from penstock.listen.registered_listener import EventView


def batch(start: int | None, end: int | None) -> BatchInfo:
    streams = {0: StreamInputInfo(0, 3), 1: StreamInputInfo(1, 4)}
    return BatchInfo(1000, streams, 1010, start, end, {})


def test_submitted_batch_has_no_delays() -> None:
    info = batch(None, None)
    assert (info.schedulingDelay, info.processingDelay, info.totalDelay) == (None, None, None)


def test_started_batch_has_a_scheduling_delay_only() -> None:
    info = batch(1050, None)
    assert (info.schedulingDelay, info.processingDelay, info.totalDelay) == (40, None, None)


def test_completed_batch_has_all_three_delays() -> None:
    info = batch(1050, 1350)
    assert (info.schedulingDelay, info.processingDelay, info.totalDelay) == (40, 300, 340)


def test_zero_delay_is_zero_and_not_none() -> None:
    info = batch(1010, 1010)
    assert (info.schedulingDelay, info.processingDelay, info.totalDelay) == (0, 0, 0)


@pytest.mark.parametrize(
    ("end", "operations", "succeeded"),
    [
        (None, [], None),
        (1300, [], True),
        (None, [(1300, None), (None, None)], None),
        (None, [(1300, "boom"), (None, None)], None),
        (1300, [(1300, None), (1250, None)], True),
        (1300, [(1300, None), (1250, "boom")], False),
        (1300, [(1300, "boom"), (1250, "")], False),
    ],
)
def test_succeeded_is_true_false_or_none_while_running(
    end: int | None, operations: list[tuple[int | None, str | None]], succeeded: bool | None
) -> None:
    infos = {
        n: OutputOperationInfo(1000, n, "n", "d", 1050, ended, failure) for n, (ended, failure) in enumerate(operations)
    }
    info = BatchInfo(1000, {}, 1010, 1050, end, infos)
    assert info.succeeded is succeeded
    assert EventView(BatchCompleted(info)).batchInfo().succeeded() is succeeded


def test_num_records_is_the_sum_over_streams() -> None:
    assert batch(None, None).numRecords == 7
    assert BatchInfo(1000, {}, 1010, None, None, {}).numRecords == 0


@pytest.mark.parametrize(("start", "end", "duration"), [(None, None, None), (5, None, None), (5, 5, 0), (0, 3, 3)])
def test_duration_is_none_until_the_output_operation_ends(
    start: int | None, end: int | None, duration: int | None
) -> None:
    assert OutputOperationInfo(1000, 0, "n", "d", start, end).duration == duration


def test_metadata_description_is_text_or_none() -> None:
    assert StreamInputInfo(0, 5).metadataDescription is None
    assert StreamInputInfo(0, 5, {"Description": ["a", "b"]}).metadataDescription == "['a', 'b']"
    assert StreamInputInfo(0, 5, {"files": 3}).metadataDescription is None


def test_receiver_info_starts_without_error() -> None:
    info = ReceiverInfo(0, "R-0", True, "", "")
    assert (info.lastErrorMessage, info.lastError, info.lastErrorTime) == ("", "", -1)


def test_infos_are_immutable() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        batch(None, None).batchTime = 5  # type: ignore[misc]  # that is the point


def test_every_event_has_a_hook_and_a_callback() -> None:
    assert sorted(HOOK_OF.values()) == sorted(name for name in vars(StreamingListener) if name.startswith("on"))
    assert len(HOOK_OF) == 11
    assert HOOK_OF[StreamingStarted] == "onStreamingStarted"
