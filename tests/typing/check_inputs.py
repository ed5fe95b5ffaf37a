"""What type checkers make of the streams that a context gives: never run, checked by mypy and pyright."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, assert_type

from pyspark import RDD, SparkContext

from penstock import AsyncReceiver, DStream, Receiver, StreamingContext, ThreadReceiver


class Numbers(Receiver[int]): ...


class Frames(ThreadReceiver[bytes]):
    def receive(self) -> None:
        self.store(b"frame")


class Events(AsyncReceiver[dict[str, float]]):
    async def receive(self) -> None: ...


def read_numbers(file: BinaryIO) -> Iterator[int]:
    for line in file:
        yield int(line)


def receivers(ssc: StreamingContext) -> None:
    assert_type(ssc.receiverStream(Numbers()), DStream[int])
    assert_type(ssc.receiverStream(Frames()), DStream[bytes])
    assert_type(ssc.receiverStream(Events()), DStream[dict[str, float]])
    assert_type(ssc.receiverStream("synthetic", rate=100), DStream[Any])
    assert_type(ssc.socketTextStream("localhost", 1), DStream[str])
    assert_type(ssc.rawSocketStream("localhost", 1), DStream[bytes])
    assert_type(ssc.socketStream("localhost", 1, read_numbers), DStream[int])
    ssc.receiverStream(Numbers)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def files(ssc: StreamingContext) -> None:
    assert_type(ssc.textFileStream("/logs"), DStream[str])
    assert_type(ssc.binaryRecordsStream("/logs", 8), DStream[bytes])
    assert_type(ssc.fileStream("/logs"), DStream[str])
    assert_type(ssc.fileStream("/logs", read=read_numbers), DStream[int])
    assert_type(ssc.input_stream("text-file", directory="/logs"), DStream[Any])


def queues(ssc: StreamingContext, sc: SparkContext) -> None:
    rdds: list[RDD[int]] = [sc.parallelize([1]), sc.parallelize([2])]
    waiting: queue.Queue[RDD[str]] = queue.Queue()
    lists: deque[list[float]] = deque()
    assert_type(ssc.queueStream(rdds), DStream[int])
    assert_type(ssc.queueStream(rdds, False, sc.parallelize([3])), DStream[int])
    assert_type(ssc.queueStream([[1], [2, 3]]), DStream[int])
    assert_type(ssc.queueStream(waiting), DStream[str])
    assert_type(ssc.queueStream(lists), DStream[float])


def contexts(sc: SparkContext, make: Callable[[], StreamingContext]) -> None:
    assert_type(StreamingContext.getOrCreate("/checkpoints", make), StreamingContext)
    assert_type(StreamingContext.getActive(), StreamingContext | None)
    assert_type(StreamingContext(sc, 1).awaitTerminationOrTimeout(5), bool)
