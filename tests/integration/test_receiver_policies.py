"""What becomes of receivers that fail too often, in a real program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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


@pytest.mark.parametrize("receiver", [Hopeless, Restless])
def test_fail_application_stops_the_program_with_the_receivers_error(
    make_ssc: Callable[..., StreamingContext], receiver: type[Receiver[int]]
) -> None:
    ssc = make_ssc(conf=QUICK | {"spark.penstock.receiver.onFailure": "fail-application"})
    ssc.receiverStream(receiver()).foreachRDD(lambda rdd: None)
    ssc.start()
    with pytest.raises(ReceiverFailedError, match=r"given up: more than 1 failures.*(nobody listens|hung up on)"):
        ssc.awaitTerminationOrTimeout(60)
