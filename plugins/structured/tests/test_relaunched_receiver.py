"""``RelaunchedReceiver``: relaunches, failure budget, rates, stops."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import evolve
from tests.helpers import Gate, run_in_background, wait_for

from penstock import Block, ConfigurationError, Receiver, StoredBlock, ThreadReceiver
from penstock_structured.relaunched_receiver import RelaunchedReceiver

QUICK = {
    "spark.streaming.blockInterval": "5ms",
    "spark.streaming.receiverRestartDelay": "1ms",
}


class Sink:
    """Accepts stored blocks in memory; fails to accept while ``failures`` is above zero."""

    def __init__(self) -> None:
        self.stored: dict[str, Block] = {}
        self.records: list[Any] = []
        self.metadata: list[Any] = []
        self.failures = 0

    def store(self, block: Block) -> StoredBlock:
        self.stored[block.block_id] = block
        return block.stored("", block.table.nbytes)

    def delete(self, block_ids: Iterable[str]) -> None:
        for block_id in block_ids:
            self.stored.pop(block_id, None)

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("sink not available")
        for each in blocks:
            if each.block_id in self.stored:
                self.metadata.append(each.metadata)
                self.records += self.stored.pop(each.block_id).records()


class Idle(Receiver[Any]):
    def onStart(self) -> None:
        """The test stores."""


class Ends(ThreadReceiver[int]):
    """Stores the number of its launch and fails."""

    launches = 0

    def onStart(self) -> None:
        type(self).launches += 1
        super().onStart()

    def receive(self) -> None:
        self.store_all([self.launches], {"launches": [*self.position.get("launches", ()), self.launches]})
        self.stop("the source has closed", ConnectionError("gone"))


class Unstartable(Receiver[Any]):
    def onStart(self) -> None:
        raise OSError("no route to the source")


@contextmanager
def hosting(
    make: Callable[[], Receiver[Any]],
    sink: Sink,
    conf: Mapping[str, str] | None = None,
    first_delay_ms: float = 1,
) -> Iterator[RelaunchedReceiver]:
    host = RelaunchedReceiver(make, sink, {**QUICK, **(conf or {})})
    # No configuration sets the delay.
    host._policy = evolve(host._policy, first_delay_ms=first_delay_ms)
    try:
        host.start()
        yield host
    finally:
        assert host.stop(timeout_s=60)


def test_a_receiver_that_ends_is_relaunched_as_a_new_instance_and_nothing_it_stored_is_lost() -> None:
    Ends.launches = 0
    sink = Sink()
    conf = {"spark.penstock.receiver.maxRestarts": "1000"}
    with hosting(Ends, sink, conf) as host:
        wait_for(lambda: len(sink.records) >= 3, "three launches")
        assert not host.failure
    assert sink.records[:3] == [1, 2, 3]
    assert sink.metadata[2] == {"launches": [1, 2, 3]}
    assert "gone" in host.last_error.message


@pytest.mark.parametrize("policy", ["stop-stream", "fail-application"])
def test_a_receiver_that_fails_too_often_is_given_up_with_the_reason(policy: str) -> None:
    conf = {"spark.penstock.receiver.maxRestarts": "2", "spark.penstock.receiver.onFailure": policy}
    with hosting(Unstartable, Sink(), conf) as host:
        wait_for(lambda: host.is_terminated, "the end of the receiver")
        assert host.state == "given up"
        assert "more than 2 failures" in host.failure
        assert "no route to the source" in host.failure


def test_a_receiver_that_cannot_be_created_counts_as_a_failed_launch() -> None:
    def make() -> Receiver[Any]:
        raise RuntimeError("no such option")

    with hosting(make, Sink(), {"spark.penstock.receiver.maxRestarts": "1"}) as host:
        wait_for(lambda: host.failure, "the failure")
        assert "no such option" in host.failure


def test_the_rate_set_before_the_launch_is_in_force_and_a_later_one_replaces_it() -> None:
    receiver = Idle()
    host = RelaunchedReceiver(lambda: receiver, Sink(), QUICK)
    host.update_rate(50.0)
    host.start()
    wait_for(lambda: host.is_active, "the receiver")
    assert receiver.rate_limit == host.rate_limit == 50.0
    host.update_rate(70.0)
    assert receiver.rate_limit == 70.0
    assert host.stop(timeout_s=60)


def test_a_pause_holds_stores_until_every_reason_has_ended() -> None:
    sink, receiver = Sink(), Idle()
    with hosting(lambda: receiver, sink) as host:
        wait_for(lambda: host.is_active, "the receiver")
        host.pause("disk")
        host.pause("end")
        host.resume("disk")

        storing = run_in_background(lambda: receiver.store_all([1]))
        assert sink.records == []
        assert not storing.done()
        host.resume("end")
        storing.result(timeout=30)
    assert sink.records == [1]


def test_an_instance_that_has_a_host_already_counts_as_a_failed_launch() -> None:
    receiver = Ends()
    with hosting(lambda: receiver, Sink(), {"spark.penstock.receiver.maxRestarts": "3"}) as host:
        wait_for(lambda: host.failure, "the failure")
        assert "runs already: each launch" in host.failure


def test_a_stop_during_the_back_off_ends_at_once() -> None:
    with hosting(Unstartable, Sink(), first_delay_ms=30_000) as host:
        wait_for(lambda: "no route" in host.last_error.message, "the failed launch")
        assert host.stop(timeout_s=5)
        assert host.failure == ""


class Stuck(Idle):
    """Does not return from ``onStop`` before the test ends."""

    def __init__(self, gate: Gate) -> None:
        self.onStop = gate  # type: ignore[method-assign]


def test_a_receiver_that_does_not_stop_is_not_relaunched_beside_its_threads(gate: Gate) -> None:
    made: list[Receiver[Any]] = []

    def make() -> Receiver[Any]:
        made.append(Stuck(gate))
        return made[-1]

    with hosting(make, Sink(), {"spark.penstock.receiver.stopTimeout": "1ms"}) as host:
        wait_for(lambda: host.is_active, "the launch")
        assert host.stop(timeout_s=60)
        assert "onStop has not returned for 0.001 s (spark.penstock.receiver.stopTimeout)" in host.failure
    assert len(made) == 1


def test_the_time_that_on_stop_may_take_adds_to_the_timeout_of_a_stop(gate: Gate) -> None:
    sink, receiver = Sink(), Stuck(gate)
    conf = {"spark.penstock.receiver.stopTimeout": "60s", "spark.streaming.blockInterval": "1h"}
    with hosting(lambda: receiver, sink, conf) as host:
        wait_for(lambda: host.is_active, "the launch")
        receiver.store(1)
        stopping = run_in_background(lambda: host.stop(timeout_s=0.05))
        assert gate.reached.wait(30)
        threading.Timer(0.1, gate.open).start()
        assert stopping.result(timeout=30)
    assert sink.records == [1]


def test_log_level_of_the_configuration_is_in_force() -> None:
    logger = logging.getLogger("penstock")
    before = logger.level
    try:
        RelaunchedReceiver(Idle, Sink(), {"spark.penstock.log.level": "ERROR"})
        assert logger.getEffectiveLevel() == logging.ERROR
    finally:
        logger.setLevel(before)


def test_an_invalid_configuration_is_refused_by_key() -> None:
    with pytest.raises(ConfigurationError, match=r"spark\.streaming\.blockInterval"):
        RelaunchedReceiver(Idle, Sink(), {"spark.streaming.blockInterval": "soon"})
