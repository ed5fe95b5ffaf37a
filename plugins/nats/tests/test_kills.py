"""kill -9 of the receiver's process and of the server: whatever is acknowledged is stored."""

from __future__ import annotations

from pathlib import Path

from plugins.brokers.tests.storing_process import stored, storing
from plugins.nats.tests.js_stream import JsStream
from tests.helpers import wait_for

from penstock_nats.nats_server import NatsServer

_COUNT = 400


def test_kills_lose_nothing_that_was_acknowledged(server: NatsServer, tmp_path: Path) -> None:
    stream = JsStream(server, "s")
    options = {"servers": server.url, "stream": stream.name, "consumer": "c", "batch": 20, "ack_wait": 1.0}
    numbers = [str(number) for number in range(_COUNT)]
    stream.publish(*numbers)
    with storing("nats", options, tmp_path) as process:
        wait_for(lambda: len(stored(tmp_path)) > _COUNT / 4, "some messages")
        process.kill()
        process.wait()
    server.kill()
    server.start()
    floor = stream.consumer().ack_floor
    assert floor is not None
    assert set(numbers[: floor.stream_seq]) <= set(stored(tmp_path))
    with storing("nats", options, tmp_path):
        wait_for(lambda: len(set(stored(tmp_path))) > _COUNT / 2, "more messages")
        server.kill()
        server.start()
        wait_for(lambda: set(stored(tmp_path)) == set(numbers), "all messages")
        wait_for(lambda: stream.is_acknowledged(_COUNT), "all acknowledgements")
