"""A receiver stores blocks, reports them and acknowledges their records, in every order of steps and faults.

The receiver's process has the engine's ``BlockPusher``, the driver its ``ReceiverTracker`` with the write-ahead log.
The driver dies at any operation of the disk, with or without the power, any message is lost, and another driver
recovers.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field
from tests.helpers.explored_engine import ExploredEngine

from penstock import Receiver, StoredBlock
from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler
from penstock.conf import Settings
from penstock.errors import PenstockError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.messages import RegisterReceiver
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import SystemClock
from penstock.runtime.threads import EngineThread
from penstock.spark.cluster import TaskLocation
from penstock.storage.directory import Directory
from penstock.track.allocations import Allocations
from penstock.track.block_logs import BlockLogs
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_launcher import ReceiverJob, ReceiverLauncher
from penstock.track.receiver_tracker import ReceiverTracker
from penstock.wire.client import Client
from penstock_testing.simulation.explore import Choices, explore
from penstock_testing.simulation.scheduler import Task

_HOME = "simulated:/home"
_CONF = {
    "spark.master": "local[4]",
    "spark.app.name": "explored",
    "spark.streaming.receiver.writeAheadLog.enable": "true",
    "spark.penstock.writeAheadLog.durability": "fsync",
    "spark.penstock.wire.timeout": "2s",
    "spark.penstock.receiver.storeRetries": "1",
}
_SETTINGS = Settings.parse(_CONF)


class Silent(Receiver[Any]):
    """Stands for the receiver, whose process this test runs."""

    def onStart(self) -> None:
        """Nothing to start."""


class Launcher(ReceiverLauncher):
    """Launches the receiver of the first driver as a simulated process; others receive nothing."""

    launched: Callable[[ReceiverJob], None]

    def make_job(
        self,
        stream_id: int,
        epoch: int,
        candidates: Sequence[TaskLocation],
        on_end: Callable[[BaseException | None], None],
    ) -> ReceiverJob:
        job = super().make_job(stream_id, epoch, candidates, on_end)
        job.start = partial(self.launched, job)  # type: ignore[method-assign]
        return job


@define(eq=False)
class Run:
    """One run: a receiver, and drivers until one has processed everything."""

    choices: Choices
    #: The receiver stores them one after the other.
    records: Sequence[str]
    acknowledged: list[str] = field(factory=list)
    #: The ids and files of the blocks of each batch, as the first driver that allocated it saw them.
    batches: dict[int, dict[str, str]] = field(factory=dict)
    violations: list[str] = field(factory=list)
    drivers: int = 0
    _receiver: Task | None = None
    _awaiting_launch: list[Task] = field(factory=list)
    engine: ExploredEngine = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.engine = ExploredEngine(self.choices, "kill", "power")
        self.engine.run(self._main)
        self._check()

    def _main(self) -> None:
        engine, is_over = self.engine, False
        while not is_over:
            self.drivers += 1
            engine.driver = process = engine.scheduler.process(f"driver {self.drivers}")
            outcome: list[bool] = []
            engine.scheduler.join(process.spawn("main", partial(self._drive, outcome)))
            is_over = bool(outcome)

    def _drive(self, outcome: list[bool]) -> None:
        engine = self.engine
        assert engine.driver is not None
        sc = engine.cluster.context(_CONF, engine.driver)
        launcher = Launcher(sc, {0: Silent()}, _SETTINGS, BlockLogs(_HOME, [0]))
        launcher.launched = self._launched
        log = WriteAheadLog(Directory.of(f"{_HOME}/log"), "run", _SETTINGS, SystemClock())
        blocks = ReceivedBlockTracker([0], log)
        tracker = ReceiverTracker(launcher, blocks, SystemClock(), lambda _event: None, lambda _error: None)
        tracker.start()
        if self._receiver is None:
            engine.scheduler.wait(self._awaiting_launch)
        for time_ms in (1000, 2000):
            self._batch(tracker, time_ms)
        assert self._receiver is not None
        engine.scheduler.join(self._receiver)
        self._batch(tracker, 3000)
        outcome.append(True)

    def _batch(self, tracker: ReceiverTracker, time_ms: int) -> None:
        tracker.allocate_blocks_to_batch(time_ms)
        content = {block.block_id: block.path for block in tracker.blocks.blocks_of_batch(time_ms, 0)}
        earlier = self.batches.setdefault(time_ms, content)
        if earlier != content:
            self.violations.append(f"batch {time_ms} had {list(earlier)} and has {list(content)}")

    def _launched(self, job: ReceiverJob) -> None:
        if self._receiver is None:
            self.engine.explore(orders=True, losses=True)
            for task in list(self._awaiting_launch):
                self.engine.scheduler.wake(task)
            self._receiver = self.engine.scheduler.process("receiver").spawn("main", partial(self._receive, job))

    def _receive(self, job: ReceiverJob) -> None:
        task, clock = job.task, SystemClock()
        pusher = BlockPusher(
            RegisterReceiver(0, task.epoch, "Silent", 0),
            _SETTINGS,
            WriteAheadLogBlockHandler(task.log_directory, "fsync"),
            Client(task.driver.location, task.driver.token, _SETTINGS.wire_timeout_ms),
            RateLimiter(clock, None, 0),
            lambda _event: None,
        )
        pusher.start()
        for record in self.records:
            try:
                pusher.store_all([record], None)
            except PenstockError:
                continue
            self.engine.scheduler.check()
            self.acknowledged.append(record)
            self.engine.may_crash()

    def _check(self) -> None:
        files = self.engine.disk.files
        ids = [block_id for content in self.batches.values() for block_id in content]
        paths = [path for content in self.batches.values() for path in content.values()]
        if missing := [path for path in paths if path not in files]:
            self.violations.append(f"in a batch and not stored: {missing}")
        found = Counter(record for path in paths if path in files for record in _records(files[path]))
        if lost := set(self.acknowledged) - set(found):
            self.violations.append(f"acknowledged and in no batch: {lost}")
        if len(set(ids)) < len(ids) or max(found.values(), default=1) > 1:
            self.violations.append(f"in two batches: {ids}")


def _records(data: bytes) -> Iterator[str]:
    reader = pa.ipc.open_file(io.BytesIO(data))
    return arrow_form.records(map(reader.get_batch, range(reader.num_record_batches)))


def runs(switches: int, faults: int) -> list[Run]:
    """All runs within a bound, of a receiver that stores two records."""
    found: list[Run] = []
    for _choices in explore(lambda choices: found.append(Run(choices, ("first", "second"))), switches, faults):
        pass
    return found


@pytest.mark.parametrize(("switches", "faults", "least"), [(1, 0, 100), (0, 1, 20)])
def test_what_is_acknowledged_is_in_exactly_one_batch(switches: int, faults: int, least: int) -> None:
    found = runs(switches, faults)
    assert [run.violations for run in found if run.violations] == []
    assert len(found) >= least
    # A record is acknowledged before and after a batch is allocated, and before and after the driver dies.
    if switches:
        assert {number for run in found for number, content in enumerate(run.batches.values()) if content} == {0, 1, 2}
    else:
        assert {(run.drivers, len(run.acknowledged)) for run in found} >= {(2, 0), (2, 1), (2, 2), (1, 2)}


def finds_violation() -> bool:
    return any(run.violations for run in runs(0, 1))


def test_acknowledgement_before_the_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = WriteAheadLog.append

    def append_later(log: WriteAheadLog, event: dict[str, Any]) -> None:
        EngineThread("append", partial(append, log, event)).start()

    monkeypatch.setattr(WriteAheadLog, "append", append_later)
    assert finds_violation()


def test_acknowledgement_before_the_disk_has_the_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    create = WriteAheadLogBlockHandler.__init__

    def create_with_flush(
        log: WriteAheadLogBlockHandler, directory: str, _durability: str = "", **options: Any
    ) -> None:
        create(log, directory, "flush", **options)

    monkeypatch.setattr(WriteAheadLogBlockHandler, "__init__", create_with_flush)
    assert finds_violation()


def test_acknowledgement_of_a_block_that_was_not_reported_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The variant breaks a step inside the class.
    report = BlockPusher._report

    def report_once(pusher: BlockPusher, blocks: list[StoredBlock]) -> None:
        with suppress(PenstockError):
            report(pusher, blocks)

    monkeypatch.setattr(BlockPusher, "_report", report_once)
    assert finds_violation()


def test_repeat_that_counts_as_new_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The variant knows a block only while no batch has it; the lock of the public methods is held at this point.
    monkeypatch.setattr(
        Allocations, "_is_new", lambda state, block: block.block_id not in state._unallocated.get(block.stream_id, {})
    )
    assert finds_violation()
