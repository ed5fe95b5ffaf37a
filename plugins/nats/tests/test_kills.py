"""kill -9 of the receiver's process and of the server: whatever is acknowledged is stored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plugins.nats.tests.js_stream import JsStream
from tests.helpers import wait_for

from penstock_nats.nats_server import NatsServer

_COUNT = 400


@contextmanager
def storing(stream: JsStream, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = Path(__file__).with_name("storing_process.py")
    process = subprocess.Popen([sys.executable, program, stream.server.url, stream.name, str(file)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stored(file: Path) -> list[str]:
    text = file.read_text() if file.exists() else ""
    # The process may have been killed in the last line.
    return text[: text.rfind("\n") + 1].split()


def test_kills_lose_nothing_that_was_acknowledged(server: NatsServer, tmp_path: Path) -> None:
    stream, file = JsStream(server, "s"), tmp_path / "stored"
    numbers = [str(number) for number in range(_COUNT)]
    stream.publish(*numbers)
    with storing(stream, file) as process:
        wait_for(lambda: len(stored(file)) > _COUNT / 4, "some messages")
        process.kill()
        process.wait()
    server.kill()
    server.start()
    floor = stream.consumer().ack_floor
    assert floor is not None
    assert set(numbers[: floor.stream_seq]) <= set(stored(file))
    with storing(stream, file):
        wait_for(lambda: len(set(stored(file))) > _COUNT / 2, "more messages")
        server.kill()
        server.start()
        wait_for(lambda: set(stored(file)) == set(numbers), "all messages")
        wait_for(lambda: stream.is_acknowledged(_COUNT), "all acknowledgements")
