"""``ReceiverHost``: a receiver runs without a driver, and everything it stores reaches the sink once."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from tests.helpers import EventLog, Gate, run_in_background, wait_for

from penstock import Block, Receiver, ReceiverHost, SourceStatus, ThreadReceiver
from penstock.errors import ReceiverStoppedError, StoreError, StreamingStateError

QUICK = {"spark.streaming.blockInterval": "5ms", "spark.streaming.receiverRestartDelay": "5ms"}


class Idle(Receiver[Any]):
    def onStart(self) -> None:
        """The test stores."""


class Failing(Receiver[Any]):
    def onStart(self) -> None:
        raise OSError("no route to the source")


class Lines(ThreadReceiver[str]):
    """Stores a line in each run of ``receive``; fails in the first."""

    runs = 0

    def receive(self) -> None:
        self.runs += 1
        self.store(f"line {self.runs}")
        if self.runs == 1:
            raise ConnectionError("connection reset")
        self.wait(60)


class Sink:
    def __init__(self) -> None:
        self.blocks = EventLog()
        self.failures = 0

    def __call__(self, block: Block) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("sink not available")
        self.blocks.add(block)

    @property
    def records(self) -> list[Any]:
        return [record for block in self.blocks.of(Block) for record in block.records()]


@pytest.fixture
def sink() -> Sink:
    return Sink()


def test_every_form_of_store_reaches_the_sink(sink: Sink) -> None:
    with ReceiverHost(receiver := Idle(), sink, QUICK) as host:
        receiver.store_all([1, 2], metadata={"offset": 2})
        receiver.store_arrow(pa.table({"value": [3]}))
        receiver.store(4)
    assert sink.records == [1, 2, 3, 4]
    assert sink.blocks.of(Block)[0].metadata == {"offset": 2}
    assert (host.stored_records, host.is_terminated) == (4, True)
    assert (host.errors, host.ends) == ([], ["stopped by its host"])


def test_position_is_the_merged_metadata_of_accepted_blocks(sink: Sink) -> None:
    receiver = Idle()
    with ReceiverHost(receiver, sink, QUICK, position={"other": 7}) as host:
        assert receiver.position == {"other": 7}
        receiver.store_all([1], {"partition 0": 1, "partition 1": 4})
        receiver.store_all([2], {"partition 0": 2})
        assert host.position == {"other": 7, "partition 0": 2, "partition 1": 4}
        host.supervisor.restart("again", delay_ms=0)
        wait_for(lambda: receiver.position == host.position, "the position is read at the restart")


def test_store_all_returns_when_the_sink_has_taken_the_records() -> None:
    gate, receiver = Gate(), Idle()
    with ReceiverHost(receiver, gate, QUICK):
        storing = run_in_background(lambda: receiver.store_all(["a"]))
        assert gate.reached.wait(10)
        assert not storing.done()
        gate.open()
        storing.result(timeout=10)


def test_status_of_the_source_is_in_the_info_and_no_block_for_the_sink(sink: Sink) -> None:
    receiver = Idle()
    with ReceiverHost(receiver, sink, QUICK) as host:
        assert host.info.source is None
        receiver.report_source(SourceStatus(5))
        wait_for(lambda: host.info.source == SourceStatus(5), "the status is reported")
    assert sink.blocks.entries == []


def test_block_is_offered_again_until_the_sink_takes_it(sink: Sink) -> None:
    sink.failures = 2
    with ReceiverHost(receiver := Idle(), sink, QUICK):
        receiver.store_all(["a"])
        receiver.store_all(["b"])
    assert sink.records == ["a", "b"]


def test_store_fails_when_the_sink_never_takes_the_block(sink: Sink) -> None:
    sink.failures = 1
    with ReceiverHost(receiver := Idle(), sink, {**QUICK, "spark.penstock.receiver.storeRetries": "0"}) as host:
        with pytest.raises(StoreError, match="sink not available"):
            receiver.store_all(["a"])
        receiver.store_all(["b"])
        assert host.stored_records == 1
    assert sink.records == ["b"]


def test_failed_receive_restarts_the_receiver_in_place(sink: Sink) -> None:
    with ReceiverHost(Lines(), sink, QUICK) as host:
        wait_for(lambda: host.stored_records == 2, "a record of each run")
    assert sink.records == ["line 1", "line 2"]
    (error,) = host.errors
    # With the line of the receiver, not of a library below it.
    assert re.fullmatch(
        r"Error receiving data: ConnectionError: connection reset \(test_receiver_host\.py:\d+ in receive\)", error
    )
    assert "ConnectionError: connection reset" in host.tracebacks[0]
    restarted, stopped = host.ends
    assert restarted.endswith(f" ms: {error}")
    assert stopped == "stopped by its host"


def test_error_of_onStart_is_listed_and_ends_the_receiver(sink: Sink) -> None:
    host = ReceiverHost(Failing(), sink)
    host.start()
    with pytest.raises(OSError, match="no route"):
        host.await_termination(10)
    assert host.errors == ["Error starting receiver 0: OSError: no route to the source"]
    assert host.is_terminated


def test_await_termination_times_out_while_the_receiver_runs(sink: Sink) -> None:
    with ReceiverHost(Idle(), sink) as host:
        assert host.await_termination(0) is False
    assert host.await_termination(0) is True


def test_rate_limit_can_be_set_and_lifted(sink: Sink) -> None:
    with ReceiverHost(receiver := Idle(), sink, {"spark.streaming.receiver.maxRate": "100"}) as host:
        assert host.rate_limit == 100
        host.update_rate(5)
        assert (host.rate_limit, receiver.rate_limit) == (5, 5)
        host.update_rate(None)
        assert host.rate_limit == 100


def test_stream_id_is_the_receivers(sink: Sink) -> None:
    with ReceiverHost(receiver := Idle(), sink, stream_id=7):
        assert receiver.streamId == 7


def test_receiver_has_one_host(sink: Sink) -> None:
    ReceiverHost(receiver := Idle(), sink)
    with pytest.raises(StreamingStateError, match="runs already: each launch needs"):
        ReceiverHost(receiver, sink)


def test_stopped_receiver_stores_nothing(sink: Sink) -> None:
    with ReceiverHost(receiver := Idle(), sink) as host:
        pass
    host.stop()
    with pytest.raises(ReceiverStoppedError):
        receiver.store("late")
    assert sink.records == []


class Following(Idle):
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def onStart(self) -> None:
        self.calls.append("onStart")

    def on_rate_change(self, rate: float | None) -> None:
        self.calls.append(rate)


def test_a_rate_set_before_the_start_is_in_force_and_the_receiver_learns_it_once_it_has_started(sink: Sink) -> None:
    host = ReceiverHost(receiver := Following(), sink)
    host.update_rate(50.0)
    assert host.rate_limit == 50.0
    with host:
        assert receiver.rate_limit == host.rate_limit == 50.0
        host.update_rate(70.0)
    assert receiver.calls == ["onStart", 50.0, 70.0]


def test_errors_that_stop_the_receiver_are_announced_also_those_before_a_restart(sink: Sink) -> None:
    failures = EventLog()
    with ReceiverHost(Lines(), sink, QUICK, on_failure=failures.add) as host:
        wait_for(lambda: sink.records == ["line 1", "line 2"], "the restart")
        assert host.starts == 2
    assert ["connection reset" in failure for failure in failures.of(str)] == [True]


def test_blocks_of_another_epoch_have_other_ids(sink: Sink) -> None:
    for epoch in (1, 2):
        with ReceiverHost(receiver := Idle(), sink, QUICK, epoch=epoch):
            receiver.store_all([epoch])
    assert [block.block_id for block in sink.blocks.of(Block)] == ["input-0-1-0", "input-0-2-0"]
