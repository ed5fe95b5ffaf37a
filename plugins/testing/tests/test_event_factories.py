"""``batch_info`` and ``receiver_info``: what they leave out, and what derives from it."""

from __future__ import annotations

import pytest

from penstock import StreamInputInfo
from penstock_testing import batch_info, receiver_info


def test_batch_is_complete_and_has_an_output_unless_the_test_says_otherwise() -> None:
    info = batch_info(5000)
    assert (info.batchTime, info.submissionTime, info.processingStartTime, info.processingEndTime) == (
        5000,
        5000,
        5000,
        5100,
    )
    assert info.succeeded is True
    assert info.numRecords == 0
    assert not info.awaits_rerun


def test_delays_follow_each_other() -> None:
    info = batch_info(5000, submission_delay=3, schedulingDelay=20, processingDelay=70)
    assert (info.submissionTime, info.schedulingDelay, info.processingDelay, info.totalDelay) == (5003, 20, 70, 90)


def test_batch_may_wait_or_run() -> None:
    waiting, running = batch_info(schedulingDelay=None), batch_info(processingDelay=None)
    assert (waiting.processingStartTime, waiting.processingEndTime) == (None, None)
    assert (running.processingStartTime, running.processingEndTime) == (1000, None)
    assert running.succeeded is None


def test_records_are_those_of_a_stream_or_of_several() -> None:
    assert batch_info(records=7).streamIdToInputInfo == {0: StreamInputInfo(0, 7)}
    assert batch_info(records={2: 3, 4: 5}).numRecords == 8


def test_the_last_output_fails() -> None:
    info = batch_info(failureReason="boom", outputs=2, awaits_rerun=True)
    assert [info.outputOperationInfos[id_].failureReason for id_ in (0, 1)] == [None, "boom"]
    assert info.succeeded is False
    assert info.awaits_rerun


def test_receiver_is_active_unless_the_test_says_otherwise() -> None:
    info = receiver_info(3, lastErrorMessage="lost", active=False)
    assert (info.streamId, info.name, info.active, info.lastErrorMessage) == (3, "Receiver-3", False, "lost")


def test_unknown_attribute_of_a_receiver_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        receiver_info(nonsense=1)
