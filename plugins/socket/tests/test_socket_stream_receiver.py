"""The receiver ``socket-stream`` under a real supervisor, with real connections."""

from __future__ import annotations

import contextlib
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from plugins.socket.tests.test_socket_stream_converters import in_one_go, lines, of_text, receiver

from penstock_socket.connection import Connection, Interrupted

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Server

    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]
# Longer than any test takes.
LONG = {"spark.streaming.blockInterval": "1h"}


def traces(launched: ReceiverHarness) -> list[str]:
    return launched.tracebacks


# -- promptly --


def test_record_arrives_while_the_converter_waits_for_more(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server, lines))
    peer = server.accept()
    expected = []
    for number in range(5):
        peer.sendall(b"whole\nbegun ")
        expected.append("begun whole" if number else "whole")
        launched.until_records(expected)
    assert launched.errors == []


def test_records_wait_for_a_block_interval_and_no_longer(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server, lines), settings={"spark.streaming.blockInterval": "1s"})
    peer = server.accept()
    peer.sendall(b"first\n")
    launched.until_records(["first"])
    began_s = time.monotonic()
    for _ in range(10):
        peer.sendall(b"more\n")
    launched.until_records(["first", *["more"] * 10])
    assert 0.6 < time.monotonic() - began_s < 20
    assert [block.num_records for block in launched.blocks] == [1, 10]


def test_slow_converter_delays_no_record(launch: Launch, server: Server) -> None:
    go_on, waiting = threading.Semaphore(0), queue.SimpleQueue[None]()

    def slow(file: BinaryIO) -> Iterator[bytes]:
        for line in file:
            # The record before is stored, and the time of the next store is known.
            waiting.put(None)
            assert go_on.acquire(timeout=30)
            yield line

    launched = launch(receiver(server, slow), settings={"spark.streaming.blockInterval": "1ms"}, pickled=False)
    server.accept().sendall(b"a\nb\nc\n")
    for number in range(1, 4):
        waiting.get(timeout=20)
        time.sleep(0.002)
        go_on.release()
        launched.until_records([b"a\n", b"b\n", b"c\n"][:number])


def test_quiet_source_is_waited_for_without_polling(
    launch: Launch, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: queue.SimpleQueue[float | None] = queue.SimpleQueue()
    receive_into = Connection.receive_into

    def watched(connection: Connection, buffer: memoryview, timeout_s: float | None) -> int | None:
        waits.put(timeout_s)
        return receive_into(connection, buffer, timeout_s)

    monkeypatch.setattr(Connection, "receive_into", watched)
    launched = launch(receiver(server, lines))
    server.accept().sendall(b"a\nb\n")
    launched.until_records(["a", "b"])
    # For the first bytes, for a block interval, and from then on for more.
    seen: list[float | None] = []
    while seen.count(None) < 2:
        seen.append(waits.get(timeout=120))
    assert len(seen) <= 3
    assert waits.empty()


# -- however it ends --


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()


def forgiving(file: BinaryIO) -> Iterator[bytes]:
    try:
        yield from file
    except OSError:
        return


@pytest.mark.parametrize("converter", [iter, forgiving], ids=["raises", "forgives"])
def test_reset_is_an_error_and_loses_no_record(
    launch: Launch, server: Server, converter: Callable[[BinaryIO], Any]
) -> None:
    launched = launch(receiver(server, converter), settings=LONG)
    peer = server.accept()
    peer.sendall(b"a\nb\nc\n")
    launched.until_count(1)
    reset(peer)
    launched.until(lambda: bool(launched.errors))
    (error,) = launched.errors
    assert re.match(r"Error receiving data from 127\.0\.0\.1:\d+ - ConnectionResetError: ", error)
    assert "ConnectionResetError" in traces(launched)[0]
    assert launched.records[0] == b"a\n"
    server.accept().sendall(b"after\n")
    launched.until(lambda: b"after\n" in launched.records)


def in_a_generator(file: BinaryIO) -> Iterator[bytes]:
    for line in file:
        if line == b"bad\n":
            raise ValueError("no such line")
        yield line


def in_a_map(file: BinaryIO) -> Iterable[bytes]:
    def refuse(line: bytes) -> bytes:
        if line == b"bad\n":
            raise ValueError("no such line")
        return line

    return map(refuse, file)


@pytest.mark.parametrize("converter", [in_a_generator, in_a_map])
def test_converter_error_is_reported_with_traceback_and_reconnects(
    launch: Launch, server: Server, converter: Callable[[BinaryIO], Any]
) -> None:
    launched = launch(receiver(server, converter), settings={**LONG, "spark.streaming.receiverRestartDelay": "1ms"})
    server.accept().sendall(b"a\nb\nbad\nc\n")
    launched.until_records([b"a\n", b"b\n"])
    launched.until(lambda: bool(launched.errors))
    assert launched.errors == ["The converter failed: ValueError: no such line"]
    assert 'raise ValueError("no such line")' in traces(launched)[0]
    server.accept().sendall(b"d\n")
    launched.until_records([b"a\n", b"b\n", b"d\n"])


def stop_at_once(file: BinaryIO) -> Iterable[bytes]:
    raise StopIteration


def stop_in_a_generator(file: BinaryIO) -> Iterator[bytes]:
    yield file.readline()
    yield next(iter(()))


def stop_in_a_map(file: BinaryIO) -> Iterable[bytes]:
    def refuse(line: bytes) -> bytes:
        return line if line != b"bad\n" else next(iter(()))

    return map(refuse, file)


def one_line(file: BinaryIO) -> list[bytes]:
    return [file.readline()]


def nothing(file: BinaryIO) -> list[bytes]:
    return []


@pytest.mark.parametrize(
    ("converter", "error"),
    [
        (stop_at_once, "StopIteration: "),
        (stop_in_a_generator, "RuntimeError: generator raised StopIteration"),
        (stop_in_a_map, "RuntimeError: it ended before the connection did"),
        (one_line, "RuntimeError: it ended before the connection did"),
        (nothing, "RuntimeError: it ended before the connection did"),
    ],
)
@pytest.mark.parametrize("open", [True, False], ids=["open", "closed"])
def test_end_before_the_connections_is_an_error(
    launch: Launch, server: Server, converter: Callable[[BinaryIO], Any], error: str, open: bool
) -> None:
    launched = launch(receiver(server, converter))
    peer = server.accept()
    peer.sendall(b"a\nbad\nb\n")
    if not open:
        peer.close()
    launched.until(lambda: bool(launched.errors))
    assert launched.errors[0].startswith(f"The converter failed: {error}")
    assert set(launched.records) <= {b"a\n"}
    server.accept()


@pytest.mark.parametrize(("given", "kind"), [(None, "NoneType"), (5, "int")])
def test_converter_that_returns_no_iterable_is_a_clear_error(
    launch: Launch, server: Server, given: object, kind: str
) -> None:
    launched = launch(receiver(server, lambda _file: given))
    launched.until(lambda: bool(launched.errors))
    assert launched.errors[0] == (
        f"The converter failed: TypeError: it returned {kind}, not an iterable; "
        "a converter yields records or returns a list"
    )


def test_system_exit_of_the_converter_ends_only_its_connection(launch: Launch, server: Server) -> None:
    def leave(file: BinaryIO) -> Iterator[bytes]:
        yield file.readline()
        raise SystemExit(3)

    launched = launch(receiver(server, leave))
    for number in range(1, 3):
        server.accept().sendall(b"a\n")
        launched.until_records([b"a\n"] * number)
    launched.until(lambda: bool(launched.errors))
    assert launched.errors[0] == "The converter failed: SystemExit: 3"


def test_record_that_cannot_be_stored_is_reported(launch: Launch, server: Server) -> None:
    def locks(file: BinaryIO) -> Iterator[Any]:
        yield "stored at once"
        yield threading.Lock()
        # It fails while this waits, and is no error of the reading.
        with contextlib.suppress(Exception):
            file.readline()

    launched = launch(receiver(server, locks))
    server.accept()
    launched.until(lambda: bool(launched.errors))
    assert launched.errors[0].startswith("Error storing what was received - TypeError: cannot pickle")
    assert "cannot pickle" in traces(launched)[0]
    server.accept()


# -- stopping --


def read_four(file: BinaryIO) -> Iterator[bytes]:
    while data := file.read(4):
        yield data


def raw(file: Any) -> Iterator[bytes]:
    while data := file.raw.read(4):
        yield data


def stubborn(file: BinaryIO) -> Iterator[bytes]:
    while True:
        try:
            yield file.readline()
        except Exception:
            continue


@pytest.mark.parametrize("converter", [iter, read_four, raw, of_text, in_one_go, stubborn])
@pytest.mark.parametrize("data", [b"", b"12"])
def test_stop_ends_a_read(launch: Launch, server: Server, converter: Callable[[BinaryIO], Any], data: bytes) -> None:
    launched = launch(receiver(server, converter))
    server.accept().sendall(data)
    launched.stop()
    assert launched.ends == ["the test is over"]
    assert launched.errors == []
    assert launched.records in ([], [b"12"] if converter is raw else [])


def test_stop_stores_yielded_records(launch: Launch, server: Server) -> None:
    reached = threading.Event()

    def tell(file: BinaryIO) -> Iterator[bytes]:
        for line in file:
            yield line
            if line == b"c\n":
                reached.set()

    launched = launch(receiver(server, tell), settings=LONG, pickled=False)
    server.accept().sendall(b"a\nb\nc\nnot whole")
    launched.until_count(1)
    assert reached.wait(120)
    launched.stop()
    assert launched.records == [b"a\n", b"b\n", b"c\n"]


def test_read_on_another_thread_only_reads(launch: Launch, server: Server) -> None:
    def beside(file: BinaryIO) -> Iterator[bytes]:
        read: queue.SimpleQueue[bytes] = queue.SimpleQueue()

        def pump() -> None:
            try:
                while line := file.readline():
                    read.put(line)
            except Interrupted:
                pass
            read.put(b"")

        thread = threading.Thread(target=pump)
        thread.start()
        while line := read.get():
            yield line
        thread.join()

    launched = launch(receiver(server, beside), settings={"spark.streaming.blockInterval": "1ms"})
    peer = server.accept()
    peer.sendall(b"a\n")
    launched.until_records([b"a\n"])
    peer.sendall(b"b\n")
    peer.close()
    launched.until_records([b"a\n", b"b\n"])
