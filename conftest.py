"""Fixtures of every test: one SparkContext for all of them, one StreamingContext each."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from tests import helpers
from tests.helpers import Gate, examples, java_options  # noqa: F401  # examples registers a profile

from penstock_testing import throttle

if TYPE_CHECKING:
    from pyspark import SparkContext
    from tests.helpers.shared_jvm import SharedJvm

    from penstock import DStream, StreamingContext
    from penstock.wire.token import Tls

pytest_plugins = ["tests.helpers.skips"]

if "coverage" in sys.modules:
    from tests.helpers.measured import trace_flight_threads

    trace_flight_threads()

# A shell's background job ignores Ctrl-C, and the programs that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once() -> None:
    if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


# A terminated run ends as an interrupted one: fixtures end the servers that they have started. A fork has none.
if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.register_at_fork(after_in_child=_end_at_once)


def pytest_collection_finish() -> None:
    """Exclude from garbage collection what the imports and the collected tests hold: to visit it takes 0.3 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_fsync() -> Iterator[None]:
    """Nothing waits for the disk: fsync matters only after a power failure. Tests of fsync replace it themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _no_throttled_log_events() -> None:
    """What an earlier test logged suppresses nothing in this one."""
    throttle.reset()


# Tasks run as Spark runs them by default: over TCP, forked from PySpark's own daemon. One part of `make test` sets it.
SPARKS_DEFAULTS = os.environ.get("PENSTOCK_TEST_WORKERS") == "sparks-defaults"


@pytest.fixture(scope="session", autouse=True)
def _java_options() -> Iterator[None]:
    options = java_options.environment(daemon="") if SPARKS_DEFAULTS else java_options.environment()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in options.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def pysparks_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the test starts fork their workers from PySpark's own daemon, as a user's do."""
    for name, value in java_options.environment(daemon="").items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def sc() -> Iterator[SparkContext]:
    """The one SparkContext of the test run, with room for two receivers and two tasks."""
    from pyspark import SparkConf, SparkContext, cloudpickle

    from penstock_cli.java import ensure_java

    ensure_java()
    # Functions of the tests travel whole: by reference, each new Python worker would import pytest (0.7 s).
    cloudpickle.register_pickle_by_value(sys.modules["tests"])
    conf = (
        SparkConf()
        .setMaster("local[4]")
        .setAppName("penstock tests")
        .set("spark.ui.enabled", "false")
        .set("spark.ui.showConsoleProgress", "false")
    )
    if not SPARKS_DEFAULTS:
        conf.set("spark.python.unix.domain.socket.enabled", "true")
    with pytest.MonkeyPatch.context() as patch:
        # The JVM runs data sources with the Python that its own environment describes.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(java_options.DAEMON_FOLDER))
        context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    yield context
    context.stop()


@pytest.fixture
def frugal_plans(sc: SparkContext) -> Iterator[None]:
    """The plans of the test's DataFrames cost less than their few rows; ``sparks_plans`` tests Spark's own."""
    from pyspark.sql import SparkSession
    from tests.helpers import frame_programs

    with frame_programs.frugal_plans(SparkSession(sc)):
        yield


@pytest.fixture(scope="session")
def shared_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedJvm]:
    """A JVM for programs that do not need its end."""
    from tests.helpers.shared_jvm import SharedJvm

    jvm = SharedJvm(tmp_path_factory.mktemp("shared-jvm"))
    yield jvm
    jvm.close()


@pytest.fixture
def make_ssc(sc: SparkContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., StreamingContext]]:
    """Makes StreamingContexts, with further configuration for them alone; stops them at the end."""
    from tests.helpers.own_conf import own_conf

    from penstock import StreamingContext
    from penstock.spark.spark_conf import entries_of

    made: list[StreamingContext] = []
    # On a busy machine batches pile up: a graceful stop that is cut short is not what these tests are about.
    shared = {**entries_of(sc), "spark.streaming.gracefulStopTimeout": "200s"}

    def make(interval_s: float = 0.2, conf: Mapping[str, str] | None = None) -> StreamingContext:
        monkeypatch.setattr(sc, "_conf", own_conf([*shared.items(), *(conf or {}).items()]))
        made.append(StreamingContext(sc, interval_s))
        return made[-1]

    yield make
    for ssc in made:
        ssc.stop(stopSparkContext=False)


@pytest.fixture
def ssc(make_ssc: Callable[..., StreamingContext]) -> StreamingContext:
    """A StreamingContext with batches of 200 ms."""
    return make_ssc()


@pytest.fixture
def make_tls(tmp_path: Path) -> Callable[..., Tls]:
    """Makes an authority of its own, and a certificate for this host signed by it; expired, with a time in the past."""
    from penstock.wire.token import Tls

    def make(name: str, not_after: datetime | None = None) -> Tls:
        folder = tmp_path / name
        folder.mkdir()
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "authority.pem")
        host = authority.issue_cert("127.0.0.1", "localhost", not_after=not_after)
        host.private_key_pem.write_to_path(folder / "key.pem")
        host.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
        certificate, key, signer = (str(folder / f"{file}.pem") for file in ("certificate", "key", "authority"))
        return Tls(certificate, key, signer)

    return make


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


@pytest.fixture
def wait_for() -> Callable[..., None]:
    """Waits for a condition in real time, with a deadline."""
    return helpers.wait_for


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that opens at the end of the test, so that no thread keeps waiting at it."""
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def joining(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a thread waits for the end of an engine thread."""
    from penstock.runtime.threads import EngineThread

    joining, finish = threading.Event(), EngineThread.finish

    def announced(thread: EngineThread, timeout_s: float | None = None) -> bool:
        joining.set()
        return finish(thread, timeout_s)

    monkeypatch.setattr(EngineThread, "finish", announced)
    return joining
