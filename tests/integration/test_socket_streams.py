"""From a TCP server to an output: lines, frames, and what a function of the program reads."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from tests.badplugins.zoo import Zoo

from penstock import DStream, StreamingContext
from penstock.errors import ConfigurationError

pytestmark = pytest.mark.spark


class Server:
    """Sends something to who connects, and keeps the connection open."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._accepted: list[socket.socket] = []

    def serve(self, answer: bytes) -> None:
        """Send it to the first that connects."""

        def run() -> None:
            peer, _ = self._socket.accept()
            self._accepted.append(peer)
            peer.sendall(answer)

        threading.Thread(target=run, daemon=True).start()

    def close(self) -> None:
        for connection in (*self._accepted, self._socket):
            connection.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


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


@pytest.mark.parametrize("method", ["socketTextStream", "socketStream", "rawSocketStream"])
def test_a_disabled_socket_plugin_is_named_in_the_error(make_ssc: Callable[..., StreamingContext], method: str) -> None:
    ssc = make_ssc(conf={"spark.penstock.plugins.disable": "socket"})
    arguments = (pairs,) if method == "socketStream" else ()
    reason = r"the plugin socket .* was left out: spark\.penstock\.plugins\.disable names it"
    with pytest.raises(ConfigurationError, match=f"{method} needs the receiver .*{reason}"):
        getattr(ssc, method)("127.0.0.1", 1, *arguments)


@pytest.mark.parametrize(
    ("hook", "spec", "name", "method", "arguments"),
    [
        ("receivers", "ReceiverSpec", "socket", "socketTextStream", ("127.0.0.1", 1)),
        ("input_streams", "InputStreamSpec", "text-file", "textFileStream", ("folder",)),
    ],
)
def test_a_stream_whose_name_another_plugin_offers_too_is_refused(
    make_ssc: Callable[..., StreamingContext],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    hook: str,
    spec: str,
    name: str,
    method: str,
    arguments: tuple[Any, ...],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    zoo = Zoo(tmp_path)
    zoo.add("acme", f"@hookimpl\ndef {hook}(): return [penstock.{spec}({name!r}, dict)]", distribution="acme-clash")
    distribution = "penstock-socket" if hook == "receivers" else "penstock-file"
    request.addfinalizer(lambda: [sys.modules.pop(module, None) for module in zoo.modules])
    with pytest.raises(ConfigurationError, match=r"acme \(acme-clash 1\.0\) and .*plugins\.prefer to acme-clash or "):
        getattr(make_ssc(), method)(*arguments)
    ssc = make_ssc(conf={"spark.penstock.plugins.prefer": distribution})
    assert isinstance(getattr(ssc, method)(*arguments), DStream)
