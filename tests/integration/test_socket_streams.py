"""From a TCP server to an output: lines, frames, and what a function of the program reads."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from penstock import StreamingContext, StreamingListener
from penstock.errors import ConfigurationError

pytestmark = pytest.mark.spark


class Server:
    """Sends something to each that connects, and keeps the connection open."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._accepted: list[socket.socket] = []

    def serve(self, *answers: bytes) -> None:
        """Send the first to the first, and so on; close all connections but the last."""

        def run() -> None:
            for number, answer in enumerate(answers, 1):
                peer, _ = self._socket.accept()
                self._accepted.append(peer)
                peer.sendall(answer)
                if number < len(answers):
                    peer.close()

        threading.Thread(target=run, daemon=True).start()

    def close(self) -> None:
        for each in (*self._accepted, self._socket):
            each.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


class Errors(StreamingListener):
    """Notes the receivers' errors."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.traces: list[str] = []

    def onReceiverError(self, receiverError: Any) -> None:
        self.messages.append(receiverError.receiverInfo.lastErrorMessage)
        self.traces.append(receiverError.receiverInfo.lastError)


def pairs(file: BinaryIO) -> Iterator[tuple[int, int]]:
    while pair := file.read(8):
        yield struct.unpack(">ii", pair)


def test_a_converter_reads_the_records(
    ssc: StreamingContext, collect: Any, wait_for: Callable[..., None], server: Server
) -> None:
    expected = [(number, -number) for number in range(10_000)]
    server.serve(b"".join(struct.pack(">ii", *pair) for pair in expected))
    batches = collect(ssc.socketStream("127.0.0.1", server.port, pairs))
    ssc.start()
    wait_for(lambda: len(batches.records) >= len(expected), "10,000 pairs")
    assert batches.records == expected


def test_a_converter_can_be_a_lambda_with_a_closure(
    ssc: StreamingContext, collect: Any, wait_for: Callable[..., None], server: Server
) -> None:
    least = 2
    server.serve(b"to be or not to be a mill\n")
    words = ssc.socketStream("127.0.0.1", server.port, lambda file: (w for w in next(file).split() if len(w) > least))
    batches = collect(words)
    ssc.start()
    wait_for(lambda: len(batches.records) >= 2, "two words")
    assert batches.records == [b"not", b"mill"]


def test_a_converter_that_fails_is_reported_and_called_for_the_next_connection(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None], server: Server
) -> None:
    ssc, errors = make_ssc(conf={"spark.streaming.receiverRestartDelay": "10ms"}), Errors()
    ssc.addStreamingListener(errors)
    server.serve(struct.pack(">iii", 1, 2, 3), struct.pack(">ii", 4, 5))
    batches = collect(ssc.socketStream("127.0.0.1", server.port, pairs))
    ssc.start()
    wait_for(lambda: len(batches.records) >= 2, "both connections' pairs")
    assert batches.records == [(1, 2), (4, 5)]
    wait_for(lambda: errors.messages, "the error")
    assert errors.messages[0].startswith("The converter failed: error: unpack requires a buffer of 8 bytes")
    assert "in pairs" in errors.traces[0]


def test_frames_are_records(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None], server: Server) -> None:
    expected = [b"", b"\n\0\xff", *(b"%d" % number for number in range(10_000))]
    server.serve(b"".join(struct.pack(">i", len(body)) + body for body in expected))
    batches = collect(ssc.rawSocketStream("127.0.0.1", server.port))
    ssc.start()
    wait_for(lambda: len(batches.records) >= len(expected), "all frames")
    assert batches.records == expected


def test_lines_are_records(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None], server: Server) -> None:
    expected = [f"line {number}" for number in range(10_000)]
    server.serve("".join(f"{line}\n" for line in expected).encode())
    batches = collect(ssc.socketTextStream("127.0.0.1", server.port))
    ssc.start()
    wait_for(lambda: len(batches.records) >= len(expected), "all lines")
    assert batches.records == expected


def test_what_was_read_before_a_graceful_stop_is_processed(
    make_ssc: Callable[..., StreamingContext],
    collect: Any,
    wait_for: Callable[..., None],
    server: Server,
    tmp_path: Path,
) -> None:
    # No block is cut before the stop.
    ssc = make_ssc(conf={"spark.streaming.blockInterval": "1h"})
    expected = [(number, number) for number in range(1000)]
    stored = tmp_path / "stored"

    def pairs_noting_the_last(file: BinaryIO) -> Iterator[tuple[int, int]]:
        for number, pair in enumerate(pairs(file), 1):
            yield pair
            # Asked for the next one: this one is stored.
            if number == 1000:
                stored.touch()

    server.serve(b"".join(struct.pack(">ii", *pair) for pair in expected))
    batches = collect(ssc.socketStream("127.0.0.1", server.port, pairs_noting_the_last))
    ssc.start()
    wait_for(stored.exists, "the last record is stored")
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    assert batches.records == expected


@pytest.mark.parametrize("converter", [None, "os:listdir"])
def test_a_converter_that_cannot_be_called_is_refused_at_once(ssc: StreamingContext, converter: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"converter.*is not callable"):
        ssc.socketStream("127.0.0.1", 1, converter)


@pytest.mark.parametrize("method", ["socketTextStream", "socketStream", "rawSocketStream"])
def test_a_missing_socket_plugin_is_named_in_the_error(make_ssc: Callable[..., StreamingContext], method: str) -> None:
    ssc = make_ssc(conf={"spark.penstock.plugins.disable": "socket"})
    arguments = (pairs,) if method == "socketStream" else ()
    with pytest.raises(ConfigurationError, match=f"{method} needs the receiver .* pip install penstock-spark"):
        getattr(ssc, method)("127.0.0.1", 1, *arguments)
