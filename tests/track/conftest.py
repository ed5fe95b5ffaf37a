"""A tracker without Spark: launches are noted instead of run, receivers are endpoints of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import pytest
from pyspark import SparkContext
from tests.helpers import EventLog

from penstock import Block, Receiver, StoredBlock
from penstock.blocks import arrow_form
from penstock.blocks.block_transfer import open_block
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.conf import Settings
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.listen.events import Event, SourceStatus
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    ReportError,
    StopReceiver,
    UpdateRateLimit,
    launch_name,
)
from penstock.receive.receiver_task import ReceiverTask
from penstock.spark import cluster, rdd_files
from penstock.spark.cluster import TaskLocation
from penstock.storage.claim import Claim, ClaimedDirectory
from penstock.storage.directory import Directory
from penstock.track import receiver_launcher
from penstock.track.batch_partitions import Located
from penstock.track.block_logs import BlockLogs
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_connection import ReceiverConnection
from penstock.track.receiver_launcher import ReceiverLauncher
from penstock.track.receiver_tracker import ReceiverTracker
from penstock.track.tracked_receivers import TrackedReceivers
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply
from penstock.wire.token import Token
from penstock_testing import ManualClock

R = TypeVar("R")


class FakeLaunch:
    """Stands in for the Spark job of a receiver; ends when the test says so."""

    def __init__(
        self,
        _sc: SparkContext,
        task: ReceiverTask,
        hosts: tuple[str, ...],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self.task = task
        self.hosts = hosts
        self._on_end = on_end
        self.group = f"group-{task.stream_id}-{task.epoch}"
        self.started = self.cancelled = False
        self._ended = threading.Event()

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True
        self.end(RuntimeError("job was cancelled"))

    def finish(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def end(self, error: BaseException | None = None) -> None:
        """The job ends."""
        self._ended.set()
        self._on_end(error)


class FakeProcess:
    """A receiver's process: talks to the tracker as a supervisor does, notes the messages that it gets."""

    def __init__(self, launch: FakeLaunch, address: str, directory: str, application: Token) -> None:
        self._application = application
        self.launch = launch
        self.task = launch.task
        self.received = EventLog()
        self.address = address
        self.directory = directory
        self.on_message: Callable[[object], object] = lambda _message: None
        kinds = (StopReceiver, UpdateRateLimit, CleanUpBlocks, ReleaseReceiver)
        store = LocalBlockHandler(Path(directory)) if directory else None
        self.endpoint = Endpoint(
            address,
            self.task.driver.token,
            dict.fromkeys(kinds, self._on_message),
            partial(open_block, store.open) if store else None,
            readers=self.task.driver.readers,
        )
        self.driver = Client(self.task.driver.location, self.task.driver.token, 10_000)

    def _on_message(self, message: object) -> Reply:
        self.received.add(message)
        self.on_message(message)
        return Reply()

    def register(self, epoch: int | None = None, stream_id: int | None = None) -> Registered:
        stream_id = self.task.stream_id if stream_id is None else stream_id
        epoch = self.task.epoch if epoch is None else epoch
        message = RegisterReceiver(stream_id, epoch, "Silent", self.endpoint.port, self.address, self.directory)
        return self._ask_as(message, Registered)

    def desired(self) -> UpdateRateLimit:
        """Register, and return the desired state of the answer."""
        desired = self.register().desired
        assert desired is not None
        return desired

    def add(
        self,
        *numbers: int,
        epoch: int | None = None,
        stream_id: int | None = None,
        source: SourceStatus | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Reply:
        """Report blocks of ten records each."""
        own = self.task.stream_id
        of = self.task.epoch if epoch is None else epoch
        blocks = [
            StoredBlock(f"input-{own}-{of}-{n}", own, 10, 1000, f"/blocks/{own}-{of}-{n}", metadata) for n in numbers
        ]
        return self._ask_as(AddBlocks(own if stream_id is None else stream_id, of, blocks, source=source), Reply)

    def _ask_as(self, message: RegisterReceiver | AddBlocks | DeregisterReceiver, kind: type[R]) -> R:
        """Send a message with the token of the launch that it names."""
        token = self._application.derive(launch_name(message.stream_id, message.epoch))
        if token == self.task.driver.token:
            return self.driver.ask(message, kind)
        with closing(Client(self.task.driver.location, token, 10_000)) as other:
            return other.ask(message, kind)

    def store(self, *numbers: int) -> list[str]:
        """Store blocks of one record, their own name, and report them; returns the names."""
        ids = [f"input-{self.task.stream_id}-{self.task.epoch}-{n}" for n in numbers]
        store = LocalBlockHandler(Path(self.directory))
        blocks = [store.store(Block(each, self.task.stream_id, 1, arrow_form.encode([each]))) for each in ids]
        assert self.driver.ask(AddBlocks(self.task.stream_id, self.task.epoch, blocks), Reply).accepted
        return ids

    @property
    def source(self) -> str:
        """Where tasks fetch its blocks."""
        return f"grpc://{self.address}:{self.endpoint.port}#{self.task.stream_id}/{self.task.epoch}"

    def report(self, message: str, error: str = "Traceback …") -> Reply:
        return self.driver.ask(ReportError(self.task.stream_id, self.task.epoch, message, error), Reply)

    def deregister(
        self, message: str = "done", error: str = "", epoch: int | None = None, *, ended: bool = False
    ) -> Reply:
        of = self.task.epoch if epoch is None else epoch
        return self._ask_as(DeregisterReceiver(self.task.stream_id, of, message, error, ended=ended), Reply)

    def close(self) -> None:
        """Die."""
        self.endpoint.stop()
        self.driver.close()


class FakeSparkContext:
    applicationId = "app-1"
    #: Of Spark; a test may add to it.
    conf: ClassVar[dict[str, str]] = {}
    _jvm, defaultParallelism = None, 2

    def __init__(self, master: str) -> None:
        self.master = master

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "127.0.0.1", **self.conf}


class Silent(Receiver[Any]):
    """Receives nothing."""

    def onStart(self) -> None:
        """Nothing to start."""


class Tracked:
    """A tracker, its launches, and the events that it posted."""

    def __init__(
        self,
        clock: ManualClock,
        receivers: Sequence[Receiver[Any]],
        conf: Mapping[str, str],
        master: str,
        checkpoint_directory: str | None,
        write_ahead_log: WriteAheadLog | None = None,
        claim: Claim | None = None,
    ) -> None:
        self.clock = clock
        self.events = EventLog()
        self.place = TaskLocation("host-a", "1")
        #: Where a launch runs, by its job group, when that is another place; and all executors.
        self.places: dict[str, TaskLocation] = {}
        self.executors = [self.place]
        self.application_errors: list[BaseException] = []
        self._launches = EventLog()
        self.processes = list[FakeProcess]()
        self.sc = cast(SparkContext, FakeSparkContext(master))
        by_id, settings = dict(enumerate(receivers)), Settings.parse(conf)
        logs = BlockLogs.of(self.sc, settings, checkpoint_directory, by_id, claim)
        self.tracker = ReceiverTracker(
            ReceiverLauncher(self.sc, by_id, settings, logs),
            ReceivedBlockTracker(by_id, write_ahead_log),
            clock,
            self._post,
            self._fail,
        )

    def _fail(self, error: BaseException) -> None:
        self.application_errors.append(error)

    def _post(self, event: Event) -> None:
        self.events.add(event)

    def make_launch(self, *arguments: Any, **options: Any) -> FakeLaunch:
        launch = FakeLaunch(*arguments, **options)
        self._launches.add(launch)
        return launch

    def launch(self, number: int = 1, timeout_s: float = 10) -> FakeLaunch:
        """The first launch of all, or a later one, once it is there."""
        return self._launches.await_one(FakeLaunch, number, timeout_s)

    @property
    def launches(self) -> list[FakeLaunch]:
        return list(self._launches.entries)

    def process(self, number: int = 1, address: str = "127.0.0.1", directory: str = "") -> FakeProcess:
        """The process of a launch, not yet registered."""
        # No public name has the driver's own token: only the driver uses it.
        token = self.tracker._launcher.token
        self.processes.append(FakeProcess(self.launch(number), address, directory, token))
        return self.processes[-1]

    def registered(self, number: int = 1, address: str = "127.0.0.1", directory: str = "") -> FakeProcess:
        """The process of a launch, registered. Its own host is an address of its own, with a directory of its own."""
        process = self.process(number, address, directory)
        assert process.register().accepted
        return process

    def relaunch(self, delay_ms: int = 60_000) -> None:
        """Let the delay of a relaunch pass."""
        self.await_waiters()
        self.clock.advance(delay_ms)

    def await_waiters(self) -> None:
        """Return when the loop has handled its events and waits on the clock for the next tick or relaunch."""
        self.settle()
        self.clock.await_waiters()

    def tick(self, duration_ms: int = 1000) -> None:
        """Let time pass, and return when the tracker has looked."""
        self.await_waiters()
        self.clock.advance(duration_ms)
        self.await_waiters()
        self.settle()

    @property
    def launcher(self) -> ReceiverLauncher:
        # No public name: the tracker alone uses it.
        return self.tracker._launcher

    @property
    def receivers(self) -> TrackedReceivers:
        # No public name: the tracker shows the records of its receivers as infos.
        return self.tracker._tracked

    def connection(self, stream_id: int = 0) -> ReceiverConnection:
        """The newest connection to a receiver."""
        return [each for each in self.connections() if each.stream_id == stream_id][-1]

    def connections(self) -> list[ReceiverConnection]:
        """The connections to receivers that serve blocks."""
        # Connections stay inside the tracker: the engine only sends through it.
        return list(self.tracker._locations.connections.serving())

    def located(self, blocks: Iterable[StoredBlock]) -> list[Located]:
        """Host, size and reference of each block."""
        # The public `partitions` cuts the blocks into partitions, without their sizes.
        return self.tracker._locations.references(blocks)

    def settle(self) -> None:
        """Return when the tracker's loop has handled all that it was given until now."""
        done = threading.Event()
        # No public method waits until the loop has handled its events: the engine never does.
        self.tracker._tracked.loop.post(done.set)
        assert done.wait(10)


class Prefers(Receiver[Any]):
    """Prefers a host."""

    def __init__(self, host: str) -> None:
        self.host = host

    def onStart(self) -> None:
        """Nothing to start."""

    def preferredLocation(self) -> str:
        return self.host


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def make_log(clock: ManualClock, tmp_path: Path) -> Iterator[Callable[..., WriteAheadLog]]:
    """Makes write-ahead logs in one folder, each of which recovers what the earlier ones wrote."""
    made: list[WriteAheadLog] = []

    def make(run: str = "run-1", conf: Mapping[str, str] | None = None, claim: Claim | None = None) -> WriteAheadLog:
        directory = Directory.of(str(tmp_path / "log"))
        files = directory if claim is None else ClaimedDirectory(directory, claim)
        made.append(WriteAheadLog(files, run, Settings.parse(conf or {}), clock))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def make_tracker(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Tracked]]:
    """Makes trackers that are not started yet."""
    made: list[Tracked] = []

    def make(
        receivers: Sequence[Receiver[Any]] | None = None,
        conf: Mapping[str, str] | None = None,
        master: str = "local[8]",
        checkpoint_directory: str | None = None,
        write_ahead_log: WriteAheadLog | None = None,
        claim: Claim | None = None,
    ) -> Tracked:
        monkeypatch.setattr(rdd_files, "qualified", lambda _sc, directory: directory)
        receivers = [Silent()] if receivers is None else receivers
        tracked = Tracked(clock, receivers, conf or {}, master, checkpoint_directory, write_ahead_log, claim)
        made.append(tracked)
        monkeypatch.setattr(receiver_launcher, "ReceiverJob", tracked.make_launch)
        monkeypatch.setattr(cluster, "running_task", lambda _sc, group: tracked.places.get(group, tracked.place))
        monkeypatch.setattr(cluster, "executors", lambda _sc: list(tracked.executors))
        monkeypatch.setattr(
            cluster, "executor_ids", lambda _sc: frozenset(executor.executor_id for executor in tracked.executors)
        )
        return tracked

    yield make
    for tracked in made:
        tracked.tracker.stop(time.monotonic())
        for launch in tracked.launches:
            launch.end()
        tracked.tracker.release()
        tracked.tracker.delete_files()
        tracked.tracker.close()
        clock.wake()
        for process in tracked.processes:
            process.close()


@pytest.fixture
def tracked(make_tracker: Callable[..., Tracked]) -> Tracked:
    """A started tracker of one receiver, launched."""
    tracked = make_tracker()
    tracked.tracker.start()
    tracked.launch()
    return tracked


@pytest.fixture
def silent() -> type[Silent]:
    """A receiver that receives nothing."""
    return Silent
