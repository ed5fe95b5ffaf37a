"""What becomes of receivers that fail too often, in a real program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers import engine_of

from penstock import Receiver, StreamingContext, ThreadReceiver
from penstock.errors import ReceiverFailedError

pytestmark = pytest.mark.spark

QUICK = {
    "spark.penstock.receiver.maxRestarts": "1",
    "spark.streaming.receiverRestartDelay": "20ms",
}


class Hopeless(Receiver[int]):
    """Cannot start."""

    def onStart(self) -> None:
        raise ConnectionRefusedError("nobody listens")


class Restless(ThreadReceiver[int]):
    """Starts, and fails at once."""

    def receive(self) -> None:
        raise ConnectionResetError("hung up on")


class Steady(ThreadReceiver[int]):
    """Stores for as long as it may."""

    def receive(self) -> None:
        while not self.wait(0.05):
            self.store(1)


@pytest.mark.parametrize("receiver", [Hopeless, Restless])
def test_fail_application_stops_the_program_with_the_receivers_error(
    make_ssc: Callable[..., StreamingContext], receiver: type[Receiver[int]]
) -> None:
    ssc = make_ssc(conf=QUICK | {"spark.penstock.receiver.onFailure": "fail-application"})
    ssc.receiverStream(receiver()).foreachRDD(lambda rdd: None)
    ssc.start()
    with pytest.raises(ReceiverFailedError, match=r"given up: more than 1 failures.*(nobody listens|hung up on)"):
        ssc.awaitTerminationOrTimeout(60)


def test_a_stream_can_be_given_up_while_another_continues(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None]
) -> None:
    ssc = make_ssc(conf=QUICK | {"spark.penstock.receiver.onFailure": "stop-stream"})
    bad, good = ssc.receiverStream(Restless()), ssc.receiverStream(Steady())
    bad.foreachRDD(lambda rdd: None)
    batches = collect(good)
    ssc.start()
    wait_for(lambda: engine_of(ssc).tracker.receiver_infos()[bad.id].given_up, "the end of the bad one")
    before = len(batches.records)
    wait_for(lambda: len(batches.records) > before + 5, "more of the good one")
    assert not engine_of(ssc).tracker.receiver_infos()[good.id].unhealthy
