"""Fixtures of the tests that need Spark: one SparkContext for all of them, one StreamingContext each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark import SparkContext

    from penstock import DStream, StreamingContext


@pytest.fixture(scope="session")
def sc() -> Iterator[SparkContext]:
    """The one SparkContext of the test run, with room for two receivers and two tasks."""
    from pyspark import SparkConf, SparkContext

    from penstock.spark.java import ensure_java

    ensure_java()
    conf = (
        SparkConf()
        .setMaster("local[4]")
        .setAppName("penstock tests")
        .set("spark.ui.enabled", "false")
        .set("spark.ui.showConsoleProgress", "false")
        .set("spark.python.unix.domain.socket.enabled", "true")
    )
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    yield context
    context.stop()


@pytest.fixture
def make_ssc(sc: SparkContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., StreamingContext]]:
    """Makes StreamingContexts, with further configuration for them alone; stops them at the end."""
    from pyspark import SparkConf

    from penstock import StreamingContext

    made: list[StreamingContext] = []
    shared = sc.getConf().getAll()

    def make(interval_s: float = 0.2, conf: Mapping[str, str] | None = None) -> StreamingContext:
        own = SparkConf(loadDefaults=False).setAll([*shared, *(conf or {}).items()])
        monkeypatch.setattr(sc, "getConf", lambda: own)
        made.append(StreamingContext(sc, interval_s))
        return made[-1]

    yield make
    for ssc in made:
        ssc.stop(stopSparkContext=False)


@pytest.fixture
def ssc(make_ssc: Callable[..., StreamingContext]) -> StreamingContext:
    """A StreamingContext with batches of 200 ms."""
    return make_ssc()


class Batches:
    """The batches of a stream, collected as they run."""

    def __init__(self, stream: DStream[Any]) -> None:
        self.all: list[list[Any]] = []
        stream.foreachRDD(lambda rdd: self.all.append(rdd.collect()))

    @property
    def records(self) -> list[Any]:
        """All records so far."""
        return [record for batch in self.all for record in batch]


@pytest.fixture
def collect() -> type[Batches]:
    """Collects a stream's batches."""
    return Batches


def _wait_for(condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.02)


@pytest.fixture
def wait_for() -> Callable[..., None]:
    """Waits for a condition of real time, with a deadline."""
    return _wait_for
