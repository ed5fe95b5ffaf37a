"""The receiver ``socket-stream`` under a real supervisor, with real connections."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from pyspark import cloudpickle

from penstock.testing import ManualClock
from penstock_socket import SocketStreamOptions, SocketStreamReceiver, tcp_receiver
from penstock_socket.connection import Connection, Interrupted
from penstock_socket.connection_file import ConnectionFile

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Server

    from penstock.testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]
# Longer than any test takes.
LONG = {"spark.streaming.blockInterval": "1h"}


def receiver(server: Server, converter: Callable[[BinaryIO], Any]) -> SocketStreamReceiver[Any]:
    return SocketStreamReceiver(SocketStreamOptions("127.0.0.1", server.port, converter))


def lines(file: BinaryIO) -> Iterator[str]:
    for line in file:
        yield line.decode().rstrip("\n")


def traces(launched: ReceiverHarness) -> list[str]:
    return launched.tracebacks


# -- what a converter can be --


def of_pairs(file: BinaryIO) -> Iterator[tuple[int, int]]:
    while pair := file.read(8):
        yield struct.unpack(">ii", pair)


def of_text(file: BinaryIO) -> Iterable[str]:
    return (line.strip() for line in io.TextIOWrapper(file, "utf-8"))


def of_json(file: BinaryIO) -> Iterable[Any]:
    return map(json.loads, file)


def with_statement(file: BinaryIO) -> Iterator[bytes]:
    with file:
        yield from file


def in_one_go(file: BinaryIO) -> list[bytes]:
    return file.read().split()


def of_pickles(file: BinaryIO) -> Iterator[Any]:
    with contextlib.suppress(EOFError):
        while True:
            yield pickle.load(file)


def of_gzip(file: BinaryIO) -> Iterable[bytes]:
    return gzip.GzipFile(fileobj=file)


def length(file: BinaryIO) -> list[int]:
    return [len(file.read())]


class Words:
    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, file: BinaryIO) -> Iterator[str]:
        for line in file:
            yield from (word for word in line.decode().split() if len(word) >= self.least)


@pytest.mark.parametrize(
    ("converter", "data", "records"),
    [
        (of_pairs, struct.pack(">iiii", 1, 2, 3, 4), [(1, 2), (3, 4)]),
        (of_text, "zwölf\n🚰".encode(), ["zwölf", "🚰"]),
        (of_json, b'{"a": 1}\n[2]\n', [{"a": 1}, [2]]),
        (with_statement, b"a\nb\n", [b"a\n", b"b\n"]),
        (in_one_go, b"a b c", [b"a", b"b", b"c"]),
        (Words(2), b"a bb c\nddd", ["bb", "ddd"]),
        (iter, b"a\nb", [b"a\n", b"b"]),
        (length, b"x" * 1_000_000, [1_000_000]),
        (of_pickles, pickle.dumps({"a": 1}) + pickle.dumps("b"), [{"a": 1}, "b"]),
        (of_gzip, gzip.compress(b"a\nb\n"), [b"a\n", b"b\n"]),
    ],
    ids=range(10),
)
def test_any_function_of_a_file_can_be_the_converter(
    launch: Launch, server: Server, converter: Callable[[BinaryIO], Any], data: bytes, records: list[Any]
) -> None:
    launched = launch(receiver(server, converter))
    peer = server.accept()
    peer.sendall(data)
    peer.close()
    launched.until_records(records)
    launched.until(lambda: bool(launched.ends))
    assert launched.ends[0].endswith("Socket data stream had no more data")
    assert launched.errors == []


def test_many_records_arrive_in_order(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server, lines))
    expected = [f"line {number}" for number in range(100_000)]
    server.accept().sendall("".join(f"{line}\n" for line in expected).encode())
    launched.until_records(expected)
    assert len(launched.blocks) < 500
    assert launched.errors == []


def test_single_bytes_are_assembled(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server, lines))
    peer = server.accept()
    for byte in "one\n\nzwölf 🚰\n".encode():
        peer.send(bytes([byte]))
    launched.until_records(["one", "", "zwölf 🚰"])


def test_receiver_can_be_pickled_with_its_converter(launch: Launch, server: Server) -> None:
    least = 2

    def long_ones(file: BinaryIO) -> Iterable[bytes]:
        return (line for line in file if len(line) > least)

    made = receiver(server, long_ones)
    launched = launch(cloudpickle.loads(cloudpickle.dumps(made)))
    server.accept().sendall(b"a\nbc\n")
    launched.until_records([b"bc\n"])


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
    launched = launch(receiver(server, lines), settings={"spark.streaming.blockInterval": "500ms"})
    peer = server.accept()
    peer.sendall(b"first\n")
    launched.until_records(["first"])
    began_s = time.monotonic()
    for _ in range(10):
        peer.sendall(b"more\n")
    launched.until_records(["first", *["more"] * 10])
    assert 0.3 < time.monotonic() - began_s < 5
    assert [block.num_records for block in launched.blocks] == [1, 10]


def test_slow_converter_delays_no_record(launch: Launch, server: Server) -> None:
    go_on = threading.Semaphore(0)

    def slow(file: BinaryIO) -> Iterator[bytes]:
        for line in file:
            assert go_on.acquire(timeout=30)
            yield line

    launched = launch(receiver(server, slow), settings={"spark.streaming.blockInterval": "1ms"}, pickled=False)
    server.accept().sendall(b"a\nb\nc\n")
    for number in range(1, 4):
        go_on.release()
        launched.until_records([b"a\n", b"b\n", b"c\n"][:number])
        time.sleep(0.002)


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
        seen.append(waits.get(timeout=20))
    assert len(seen) <= 3
    assert waits.empty()


# -- however it ends --


def test_receiver_comes_back_after_the_end(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server, lines))
    for number in range(3):
        peer = server.accept()
        peer.sendall(b"whole\nlast")
        peer.close()
        launched.until_records(["whole", "last"] * (number + 1))
    assert launched.errors == []


def test_refused_connection_is_tried_again_until_a_server_is_there(launch: Launch, refusing: Server) -> None:
    launched = launch(receiver(refusing, lines))
    launched.until(lambda: len(launched.errors) >= 2)
    assert set(launched.errors) == {f"Error connecting to 127.0.0.1:{refusing.port}"}
    refusing.listen().accept().sendall(b"at last\n")
    launched.until_records(["at last"])


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
    assert launched.errors == ["Error receiving data"]
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
    assert launched.errors[0] == "Error storing what was received"
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
    assert reached.wait(20)
    launched.stop()
    assert launched.records == [b"a\n", b"b\n", b"c\n"]


def test_stop_ends_connecting(launch: Launch, silent: Server) -> None:
    launched = launch(SocketStreamReceiver(SocketStreamOptions("127.0.0.1", silent.port, iter, 600)))
    launched.stop()
    assert launched.errors == []


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


# -- the rate limit --


class Fountain:
    """In place of a connection: gives a hundred bytes a line for ever, and remembers how much was asked for."""

    last: Fountain

    def __init__(self, *_: object) -> None:
        self.received_bytes = 0
        self._interrupted = threading.Event()
        Fountain.last = self

    def open(self) -> None:
        pass

    def receive_into(self, buffer: memoryview, timeout_s: float | None) -> int:
        if self._interrupted.is_set():
            raise Interrupted
        begin = self.received_bytes % 100
        buffer[:] = ((b"x" * 99 + b"\n") * (len(buffer) // 100 + 2))[begin : begin + len(buffer)]
        self.received_bytes += len(buffer)
        return len(buffer)

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        pass


@pytest.fixture
def fountain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_receiver, "Connection", Fountain)


# Who waits for the clock when a rate limit holds: the limiter, and the block generator's timer.
HELD = 2
NOWHERE = SocketStreamOptions("nowhere", 1, iter)


def test_rate_limit_holds_from_the_first_record(launch: Launch, fountain: None) -> None:
    clock = ManualClock()
    settings = {"spark.streaming.blockInterval": "100ms", "spark.streaming.receiver.maxRate": "1000"}
    launched = launch(SocketStreamReceiver(NOWHERE), clock, settings)

    def stored() -> int:
        clock.await_waiters(HELD)
        return sum(block.num_records for block in launched.blocks)

    assert stored() <= 1
    for passed_ms in range(10, 1001, 10):
        clock.advance(10)
        assert 0.7 * passed_ms - 100 <= stored() <= passed_ms + 100
    # What is read ahead is bounded: a buffer, and what the limiter lets pass in one go.
    assert Fountain.last.received_bytes <= (stored() + 2 * 100) * 100 + 2 * (64 << 10)


def test_stop_ends_a_wait_for_the_rate_limit(launch: Launch, fountain: None) -> None:
    clock = ManualClock()
    launched = launch(SocketStreamReceiver(NOWHERE), clock, {"spark.streaming.receiver.maxRate": "1"})
    clock.await_waiters(HELD)
    launched.stop()
    assert launched.errors == []


def test_blocks_are_large_without_a_rate_limit(launch: Launch, fountain: None) -> None:
    launched = launch(SocketStreamReceiver(NOWHERE), settings=LONG)
    launched.until(lambda: len(launched.blocks) >= 4)
    launched.stop()
    assert [block.num_records for block in launched.blocks[:4]] == [1, 10_000, 10_000, 10_000]


# -- the file --


class Given:
    """In place of a connection: gives what it was given, then the end."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    def receive_into(self, buffer: memoryview, timeout_s: float | None) -> int:
        part = self._parts.pop(0) if self._parts else b""
        buffer[: len(part)] = part
        return len(part)


class NoBatcher:
    num_bytes = 0

    def store_or_wait_s(self) -> None:
        return None


def test_connection_file_is_read_only() -> None:
    raw: Any = ConnectionFile(Given(b"ab", b"cd\nef"), NoBatcher())  # type: ignore[arg-type]  # what is used of them
    file = io.BufferedReader(raw, 16)
    assert (file.readable(), file.writable(), file.seekable()) == (True, False, False)
    assert raw.readinto(bytearray()) == 0
    assert not raw.ended
    assert file.read1(3) == b"ab"
    assert file.readline() == b"cd\n"
    assert file.read() == b"ef"
    assert file.read() == b""
    assert raw.ended
    with pytest.raises(io.UnsupportedOperation):
        file.fileno()
    with pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
