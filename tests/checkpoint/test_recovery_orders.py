"""A program is checkpointed and recovered, with a crash of the driver at every operation of its disk.

It is the program of the simulator on the whole engine: receivers, a window, state. The driver dies with or without the
power of its machine, and another one recovers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
from attrs import define, field
from pyspark import SparkContext
from tests.helpers.explored_engine import ExploredEngine

from penstock import StreamingContext
from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.journal.segment import segment_name, segment_numbers
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock_testing.simulation import oracles
from penstock_testing.simulation.explore import Choices, explore
from penstock_testing.simulation.scheduler import SimulatedProcess, SimulationError
from penstock_testing.simulation.simulated_program import World, create

_CONF = {
    "spark.master": "local[8]",
    "spark.app.name": "explored",
    "spark.streaming.receiver.writeAheadLog.enable": "true",
    "spark.penstock.writeAheadLog.durability": "fsync",
    "spark.python.unix.domain.socket.enabled": "true",
}


@define(eq=False)
class Run:
    """One run: drivers until one has processed all messages and stopped."""

    choices: Choices
    crashes: Sequence[str]
    #: Whether the order of the threads is explored, too.
    orders: bool = False
    drivers: int = 0
    engine: ExploredEngine = field(init=False)
    world: World = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.engine = ExploredEngine(self.choices, *self.crashes)
        self.world = World(self.engine.scheduler, 4, 0.5)
        with self.world.entered():
            try:
                self.engine.run(self._main)
                oracles.check(self.world, skips_times=False)
            # A driver has raised an error.
            except SimulationError as error:
                self.world.violate(str(error))

    def _main(self) -> None:
        engine, outcome = self.engine, list[bool]()
        while not outcome:
            self.drivers += 1
            engine.driver = process = engine.scheduler.process(f"driver {self.drivers}")
            engine.scheduler.join(process.spawn("main", partial(self._drive, process, outcome)))

    def _drive(self, process: SimulatedProcess, outcome: list[bool]) -> None:
        sc = self.engine.cluster.context(_CONF, process)
        # Each simulated process has its own, which a recovery looks up.
        SparkContext._active_spark_context = sc
        ssc = StreamingContext.getOrCreate("simulated:/home", lambda: create(sc, 1))
        self.engine.explore(orders=self.orders, losses=False)
        ssc.start()
        while not self.world.is_drained:
            ssc.awaitTerminationOrTimeout(0.5)
        ssc.stop(stopSparkContext=True, stopGracefully=True)
        outcome.append(True)


def test_crash_loses_and_doubles_nothing() -> None:
    runs: list[Run] = []
    for _choices in explore(lambda choices: runs.append(Run(choices, ["power"])), switches=0, faults=1):
        pass
    assert [run.world.violations for run in runs if run.world.violations] == []
    assert Counter(run.drivers for run in runs) == {1: 1, 2: len(runs) - 1}
    assert len(runs) > 20


def finds_violation(crash: str, faults: int = 1) -> bool:
    violations: list[str] = []

    def run(choices: Choices) -> None:
        violations.extend(Run(choices, [crash]).world.violations)

    return any(violations for _choices in explore(run, 0, faults))


def test_old_checkpoints_deleted_before_the_new_one_is_written_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The variant breaks the order of steps inside the class.
    write = CheckpointStore.write

    def delete_and_write(store: CheckpointStore, checkpoint: Checkpoint) -> Checkpoint:
        store.retained = []
        store._delete_old()
        return write(store, checkpoint)

    monkeypatch.setattr(CheckpointStore, "write", delete_and_write)
    assert finds_violation("kill")


def test_checkpoint_that_the_disk_does_not_have_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckpointStore, "syncs_next", False)
    assert finds_violation("power")


def test_log_truncated_before_its_new_state_is_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The variant breaks the order of steps inside the class.
    begin = WriteAheadLog._begin_base

    def truncate_and_begin(log: WriteAheadLog) -> None:
        for segment in segment_numbers(log._directory):
            log._directory.delete(segment_name(segment))
        begin(log)

    monkeypatch.setattr(WriteAheadLog, "_begin_base", truncate_and_begin)
    # The second driver truncates it.
    assert finds_violation("kill", faults=2)
