"""``listener_events`` draws consistent runs with every event."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from penstock import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    OutputOperationCompleted,
    OutputOperationStarted,
    ReceiverStarted,
    ReceiverStopped,
    StopProgress,
)
from penstock.listen.events import HOOK_OF
from penstock_testing import listener_events
from penstock_testing.event_runs import PHASES, totals_of


@pytest.mark.parametrize("seed", range(5))
def test_run_has_every_event_and_each_batch_goes_through_its_states(seed: int) -> None:
    events = listener_events(random.Random(seed), batches=12)
    assert {type(event) for event in events} == set(HOOK_OF)
    states = defaultdict(list)
    operations = defaultdict(list)
    for event in events:
        if isinstance(event, BatchSubmitted | BatchStarted | BatchCompleted):
            states[event.batchInfo.batchTime].append(event)
        if isinstance(event, OutputOperationStarted | OutputOperationCompleted):
            operations[event.outputOperationInfo.batchTime].append(event.outputOperationInfo)
    assert len(states) == len(operations) == 12
    for batch_time, (submitted, started, completed) in states.items():
        assert [type(event) for event in (submitted, started, completed)] == [
            BatchSubmitted,
            BatchStarted,
            BatchCompleted,
        ]
        info: BatchInfo = completed.batchInfo
        assert info.processingStartTime is not None
        assert batch_time <= info.submissionTime < info.processingStartTime
        assert started.batchInfo.processingStartTime == info.processingStartTime
        assert list(info.outputOperationInfos.values()) == operations[batch_time][1::2]
        assert max(operation.endTime or 0 for operation in operations[batch_time]) == info.processingEndTime


def test_batches_run_one_after_the_other_and_some_wait() -> None:
    completed = [e.batchInfo for e in listener_events(random.Random(0), batches=50) if isinstance(e, BatchCompleted)]
    ends = [info.processingEndTime or 0 for info in completed]
    starts = [info.processingStartTime or 0 for info in completed]
    assert all(start > end for start, end in zip(starts[1:], ends, strict=False))
    assert max(info.schedulingDelay or 0 for info in completed) > 100
    assert totals_of(BatchCompleted(info) for info in completed)["failed_batches"] >= 1


def test_receiver_fails_is_relaunched_elsewhere_and_stops() -> None:
    events = listener_events(random.Random(0), streams=[3])
    infos = [event.receiverInfo for event in events if isinstance(event, ReceiverStarted | ReceiverStopped)]
    assert [info.active for info in infos] == [True, False, True, False]
    assert infos[0].executorId != infos[2].executorId
    assert {info.streamId for info in infos} == {3}


def test_stop_has_its_phases_in_order_and_can_be_left_out() -> None:
    events = listener_events(random.Random(0))
    assert [event.phase for event in events if isinstance(event, StopProgress)] == list(PHASES)
    assert events[-1] == StopProgress(events[-1].time, "listeners", 0)  # type: ignore[union-attr]  # the next assertion
    assert not [e for e in listener_events(random.Random(0), stops=False) if isinstance(e, StopProgress)]


def test_equal_seeds_give_equal_runs_and_a_recovered_run_continues_the_batch_times() -> None:
    assert listener_events(random.Random(7)) == listener_events(random.Random(7))
    first, later = (listener_events(random.Random(7), batches=12, first_batch=number) for number in (1, 9))
    times = [{e.batchInfo.batchTime for e in run if isinstance(e, BatchCompleted)} for run in (first, later)]
    assert len(times[0] & times[1]) == 4
