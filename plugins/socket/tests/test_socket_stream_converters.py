"""What a converter of ``socket-stream`` can be: any function of a binary file that returns an iterable."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from pyspark import cloudpickle

from penstock_socket import SocketStreamOptions, SocketStreamReceiver

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Server

    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]


def receiver(server: Server, converter: Callable[[BinaryIO], Any]) -> SocketStreamReceiver[Any]:
    return SocketStreamReceiver(SocketStreamOptions("127.0.0.1", server.port, converter))


def lines(file: BinaryIO) -> Iterator[str]:
    for line in file:
        yield line.decode().rstrip("\n")


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


def test_receiver_can_be_pickled_with_its_converter(launch: Launch, server: Server) -> None:
    least = 2

    def long_ones(file: BinaryIO) -> Iterable[bytes]:
        return (line for line in file if len(line) > least)

    original = receiver(server, long_ones)
    launched = launch(cloudpickle.loads(cloudpickle.dumps(original)))
    server.accept().sendall(b"a\nbc\n")
    launched.until_records([b"bc\n"])
