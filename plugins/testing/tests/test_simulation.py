"""The simulator: it finds planted defects, finds none in the engine, and repeats itself exactly."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pyspark import SparkContext

from penstock import StreamingContext
from penstock.blocks.block import StoredBlock
from penstock.graph.node import Node
from penstock.graph.stateful import StatefulDStream
from penstock.journal.segment import Event
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.threads import EngineThread
from penstock.storage.claim import Claim
from penstock.storage.directory import Directory, Durability
from penstock.track import allocations
from penstock.track.allocations import Allocations
from penstock_state.state_store import StateStore, StateVersion
from penstock_testing import FAULTS, SimulatedFault, Simulation
from penstock_testing.simulation.simulated_disk import SimulatedAppender

SEEDS_AND_FAULTS = [
    (0, "kill"),
    (1, "orphans"),
    (2, "power"),
    (12, "jvm"),
    (13, "executor"),
    (3, "worker"),
    (5, "receiver"),
    (4, "task"),
    (14, "speculation"),
    (11, "sink"),  # RDD checkpoints of states before the youngest recovered one were never deleted
    (6, "wire"),
    (7, "disk"),
    (8, "clock"),
    (9, "suspend"),
    (10, "stop"),
    (15, "upgrade"),
]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(("seed", "fault"), SEEDS_AND_FAULTS)
def test_engine_keeps_its_guarantees(seed: int, fault: str) -> None:
    outcome = Simulation(seed, [fault]).run()
    assert outcome.violations == ()
    assert set(outcome.faults) == {fault}


def test_rdd_checkpoints_of_an_earlier_run_are_deleted_while_its_state_store_is_used() -> None:
    simulation = Simulation(14)
    assert simulation.maps_with_state
    assert simulation.run().violations == ()


def test_half_of_the_programs_map_with_state() -> None:
    tested = [Simulation(seed, [fault]).maps_with_state for seed, fault in SEEDS_AND_FAULTS]
    assert 4 <= sum(tested) <= 12


def test_every_fault_has_a_seed() -> None:
    assert [fault for _seed, fault in SEEDS_AND_FAULTS] == list(FAULTS)


def test_seed_chooses_faults() -> None:
    outcome = Simulation(7).run()
    assert outcome.violations == ()
    assert set(outcome.faults) <= set(FAULTS)
    assert outcome.faults
    assert outcome.steps > 100
    assert outcome.virtual_s > 5


def test_planned_faults_happen_when_they_are_planned() -> None:
    planned = [SimulatedFault("wire", 1.5, 2.0), SimulatedFault("kill", 2.25)]
    outcome = Simulation(3, planned).run()
    assert outcome.violations == ()
    assert outcome.planned == tuple(planned)
    assert outcome.faults == {"kill": 1, "wire": 1}
    began = [float(line.split()[0]) for line in outcome.trace if "| fault: " in line]
    assert began == pytest.approx([1500, 2250], abs=20)


def test_same_seed_has_the_same_program_with_fewer_faults() -> None:
    whole = Simulation(4)
    assert len(whole.faults.planned) > 1
    fewer = Simulation(4, whole.faults.planned[:1])
    assert fewer.conf == whole.conf
    assert [source.due_s for source in fewer.world.sources] == [source.due_s for source in whole.world.sources]


def test_unknown_faults_are_refused() -> None:
    with pytest.raises(ValueError, match="no fault is named 'fire'; they are: kill, "):
        Simulation(0, ["fire"])
    with pytest.raises(ValueError, match="no fault is named 'fire'; they are"):
        SimulatedFault("fire", 1.0)
    with pytest.raises(ValueError, match="either all names or all SimulatedFault"):
        Simulation(0, ["kill", SimulatedFault("kill", 1.0)])  # type: ignore[arg-type]


def test_next_version_of_the_program_writes_after_an_upgrade() -> None:
    for seed in range(20):
        simulation = Simulation(seed, [SimulatedFault("upgrade", 4.0)])
        if simulation.conf["spark.penstock.checkpoint.rebuild"] == "true":
            assert simulation.run().violations == ()
            assert set(simulation.world.versions.values()) == {1, 2}
            return
    pytest.fail("no seed rebuilds the program")


def test_without_faults_nothing_fails() -> None:
    outcome = Simulation(0, []).run()
    assert outcome.violations == ()
    assert outcome.faults == {}
    assert not [line for line in outcome.trace if "| error " in line]


HISTORY = "from penstock_testing import Simulation; print(Simulation(4, ['kill', 'wire']).run().digest)"


@pytest.mark.programs
def test_same_seed_gives_same_history_in_every_process() -> None:
    here = Simulation(4, ["kill", "wire"]).run()
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", HISTORY], env=environment, capture_output=True, text=True, check=True, timeout=240
    )
    assert run.stdout.split() == [here.digest]


def test_same_seed_gives_same_history_again() -> None:
    assert Simulation(5, ["kill", "wire"]).run().trace == Simulation(5, ["kill", "wire"]).run().trace


def test_other_seed_gives_other_history() -> None:
    assert Simulation(4, ["kill"]).run().digest != Simulation(5, ["kill"]).run().digest


def test_simulation_restores_what_it_replaces() -> None:
    def values() -> dict[str, dict[str, int]]:
        modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("penstock.")]
        places: list[Any] = [*modules, EngineThread, Directory, SparkContext, StreamingContext]
        return {place.__name__: {name: id(value) for name, value in vars(place).items()} for place in places}

    # The first simulation imports modules.
    Simulation(0, []).run()
    before = values()
    Simulation(0, []).run()
    assert values() == before


# -- planted defects --


def is_found(text: str, fault: str) -> bool:
    """Whether one of the first seeds with a fault finds a planted defect."""
    return any(text in violation for seed in range(25) for violation in Simulation(seed, [fault]).run().violations)


def test_acknowledgement_before_the_write_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = WriteAheadLog.append

    def append_later(write_ahead_log: WriteAheadLog, event: Event) -> None:
        EngineThread("late write", partial(append, write_ahead_log, event)).start()

    monkeypatch.setattr(WriteAheadLog, "append", append_later)
    assert is_found("acknowledged by stream", "kill")


def test_write_that_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = SimulatedAppender.commit
    monkeypatch.setattr(SimulatedAppender, "commit", lambda appender, _durability: commit(appender, Durability.FLUSH))
    assert is_found("", "power")


def test_unfenced_driver_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claim, "check", lambda _claim: None)
    assert is_found("is now", "suspend")


def test_state_that_never_times_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateStore, "older_than", lambda _store, _version, _before_ms: iter(()))
    assert is_found("mapped of batch", "kill")


def test_state_files_that_are_deleted_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    retire = StateStore.retire

    def retire_at_once(store: StateStore, version: StateVersion, _before_ms: int) -> StateVersion:
        return retire(store, version, version.time_ms + 1)

    monkeypatch.setattr(StateStore, "retire", retire_at_once)
    assert is_found("", "kill")


def test_batches_that_are_never_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "is_forgettable", lambda _node, _time_ms: False)
    monkeypatch.setattr(StatefulDStream, "is_forgettable", lambda _node, _time_ms: False)
    assert is_found("holds more and more objects", "worker")


def test_blocks_that_are_never_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocations, "old_batches", lambda _allocated, _before_ms, _retained: [])
    assert is_found("blocks that are no longer needed are still known", "worker")


def test_repeated_report_that_is_accepted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_new(_allocations: Allocations, _block: StoredBlock) -> bool:
        return True

    monkeypatch.setattr(Allocations, "_is_new", is_new)
    assert is_found("in two batches, or twice in one", "wire")
