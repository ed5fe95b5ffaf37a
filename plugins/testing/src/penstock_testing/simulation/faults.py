"""The faults of a simulation: what may happen, the plan of what happens when, and how it is carried out."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from attrs import field, frozen

from penstock_testing.simulation.scheduler import Task

if TYPE_CHECKING:
    from penstock_testing.simulation.simulation import Simulation

#: Each fault, and what it does.
FAULTS = {
    "kill": "the driver and its workers are killed",
    "orphans": "the driver is killed, and its workers live on for some seconds",
    "power": "the power fails: the driver is killed, and the disk keeps what was synced and any part of the rest",
    "jvm": "the driver's JVM is killed: each use of Spark fails until somebody ends the driver",
    "executor": "an executor is killed with all its workers",
    "worker": "the worker process of a receiver is killed",
    "receiver": "the code of receivers raises errors for some seconds",
    "task": "tasks of batches fail, or take longer than the batch interval",
    "speculation": "tasks of batches run twice at once; the first result counts",
    "sink": "output operations fail for some seconds",
    "wire": "requests and answers between driver and receivers are lost, or late",
    "disk": "operations of the disk fail, or take long",
    "clock": "the wall clock is set forward or back",
    "suspend": "the driver is suspended while another one recovers, and resumed later",
    "stop": "the program is stopped, gracefully or at once, and started again",
    "upgrade": "the program is stopped or killed, and its next version is started",
}
# Times in seconds: the longest pause between two faults, and the longest duration of one that lasts.
_PAUSE_S, _LAST_S = 6.0, 4.0
_LONGEST_STEP_S = 8
# Faults of a moment; all others last.
_MOMENTARY = {"kill", "orphans", "power", "executor", "worker", "clock", "stop", "upgrade"}
_ERRORS = (errno.ENOSPC, errno.EIO)


def check_names(names: Collection[str]) -> None:
    """Refuse names of faults that are unknown, with a ValueError that names the known ones."""
    for name in names:
        if name not in FAULTS:
            raise ValueError(f"no fault is named {name!r}; they are: {', '.join(FAULTS)}")


def _is_known(_fault: object, _attribute: object, name: str) -> None:
    check_names([name])


@frozen
class SimulatedFault:
    """A fault that happens in a simulation.

    Attributes:
        kind: a name of ``FAULTS``.
        at_s: when it begins, in seconds of virtual time since the start.
        lasts_s: how long it lasts; 0 for a fault of a moment.
        details: decides what else is left to chance, such as which worker is killed.
    """

    kind: str = field(validator=_is_known)
    at_s: float
    lasts_s: float = 0.0
    details: int = 0


def plan(random: Random, kinds: Collection[str], duration_s: float) -> tuple[SimulatedFault, ...]:
    """Faults of some kinds for a number of seconds, in the order of their beginnings; one at least."""
    faults, at_s, lasting = list[SimulatedFault](), 0.0, dict[str, float]()
    pause_s = min(_PAUSE_S, duration_s / 2)
    while kinds:
        at_s += random.random() * pause_s
        if at_s >= duration_s:
            break
        kind = random.choice(sorted(kinds))
        lasts_s = 0.0 if kind in _MOMENTARY else random.random() * _LAST_S
        # A kind of fault that lasts does not overlap with itself.
        if lasting.get(kind, 0.0) <= at_s:
            lasting[kind] = at_s + lasts_s
            faults.append(SimulatedFault(kind, round(at_s, 3), round(lasts_s, 3), random.randrange(1000)))
    return tuple(faults)


class Faults:
    """Makes the faults of a plan happen, and counts them. Faults that last may overlap with all others."""

    def __init__(self, simulation: Simulation, planned: Sequence[SimulatedFault]) -> None:
        self._simulation = simulation
        self._random = simulation.scheduler.random
        self.planned = planned
        self.kinds = sorted({fault.kind for fault in planned})
        self.counts: Counter[str] = Counter()
        # Probabilities, which are above 0 while a fault lasts.
        self._task_failure = 0.0
        self._sink_failure = 0.0
        self._receiver_failure = 0.0
        self._disk_failure = 0.0
        self._disk_delay_s = 0.0
        simulation.disk.fault = self._on_disk
        simulation.cluster.fails = self._fails_task
        simulation.world.before_output = self._on_output
        simulation.world.before_store = self._on_store

    def storm(self) -> None:
        """Let the faults happen; all that last have ended afterwards."""
        scheduler, tasks = self._simulation.scheduler, list[Task]()
        process = scheduler.process("faults")
        end_s = max((fault.at_s + fault.lasts_s for fault in self.planned), default=0.0)
        # A process ends with its first thread.
        tasks.append(process.spawn("storm", partial(scheduler.elapse, end_s + _PAUSE_S)))
        for fault in self.planned:
            scheduler.elapse(fault.at_s - scheduler.now_s)
            self.counts[fault.kind] += 1
            scheduler.note(f"fault: {fault.kind}")
            tasks.append(process.spawn(fault.kind, partial(self._happen, fault)))
        for task in reversed(tasks):
            scheduler.join(task)

    def _happen(self, fault: SimulatedFault) -> None:
        happen: Callable[[Random], Callable[[], object] | None] = getattr(self, f"_{fault.kind}")
        end = happen(Random(fault.details))
        if end is not None:
            self._simulation.scheduler.elapse(fault.lasts_s)
            self._simulation.scheduler.note(f"end of fault: {fault.kind}")
            end()

    # -- faults of a moment --

    def _kill(self, _random: Random) -> None:
        self._simulation.kill_driver()

    def _orphans(self, random: Random) -> None:
        self._simulation.kill_driver(orphaned_s=0.1 + random.random() * 5.0)

    def _power(self, _random: Random) -> None:
        self._simulation.kill_driver()
        self._simulation.disk.fail_power()

    def _executor(self, random: Random) -> None:
        context = self._simulation.context
        if context is not None:
            context.kill_executor(random.random())

    def _worker(self, random: Random) -> None:
        workers = [] if self._simulation.context is None else self._simulation.context.receiver_workers()
        if workers:
            self._simulation.scheduler.kill(random.choice(workers))

    def _clock(self, random: Random) -> None:
        step_s = random.choice((-1, 1)) * (1 + random.random() * _LONGEST_STEP_S)
        self._simulation.scheduler.wall_ns += round(step_s * 1e9)

    def _stop(self, random: Random) -> None:
        self._simulation.stop_driver(graceful=random.random() < 0.5)

    def _upgrade(self, random: Random) -> None:
        self._simulation.world.version += 1
        how = random.choice(("kill", "graceful", "at once"))
        if how == "kill":
            self._simulation.kill_driver()
        else:
            self._simulation.stop_driver(graceful=how == "graceful")

    # -- faults that last; each returns the function that ends it --

    def _jvm(self, random: Random) -> Callable[[], object]:
        driver, context = self._simulation.driver, self._simulation.context
        if driver is None or context is None:
            return lambda: None
        context.kill_jvm()
        how = random.choice(("kill", "graceful", "at once"))

        def end() -> None:
            if driver is not self._simulation.driver:
                return
            if how == "kill":
                self._simulation.kill_driver()
            else:
                self._simulation.stop_driver(graceful=how == "graceful")

        return end

    def _task(self, random: Random) -> Callable[[], object]:
        cluster, is_slow = self._simulation.cluster, random.random() < 0.5
        was_s, cluster.task_s = cluster.task_s, 1.0 if is_slow else cluster.task_s
        self._task_failure = 0.0 if is_slow else random.choice((0.1, 0.5, 0.9))

        def end() -> None:
            cluster.task_s = was_s
            self._task_failure = 0.0

        return end

    def _speculation(self, _random: Random) -> Callable[[], object]:
        self._simulation.cluster.speculates = True
        return lambda: setattr(self._simulation.cluster, "speculates", False)

    def _sink(self, random: Random) -> Callable[[], object]:
        self._sink_failure = random.choice((0.2, 1.0))
        return lambda: setattr(self, "_sink_failure", 0.0)

    def _receiver(self, random: Random) -> Callable[[], object]:
        self._receiver_failure = random.choice((0.1, 0.5))
        return lambda: setattr(self, "_receiver_failure", 0.0)

    def _wire(self, random: Random) -> Callable[[], object]:
        network = self._simulation.network
        network.request_loss = random.choice((0.0, 0.2, 1.0))
        network.answer_loss = random.choice((0.0, 0.2, 1.0))
        network.delay_s = random.choice((0.003, 0.5, 3.0))
        return network.heal

    def _disk(self, random: Random) -> Callable[[], object]:
        if random.random() < 0.4:
            self._disk_delay_s = random.choice((0.1, 1.0))
        else:
            self._disk_failure = random.choice((0.05, 0.5, 1.0))

        def end() -> None:
            self._disk_delay_s = self._disk_failure = 0.0

        return end

    def _suspend(self, _random: Random) -> Callable[[], object]:
        self._simulation.replace_driver()
        return self._simulation.resume_all

    # -- called where a fault may strike --

    def _on_disk(self, operation: str, path: str) -> None:
        if self._disk_delay_s and operation != "write":
            self._simulation.scheduler.elapse(self._random.random() * self._disk_delay_s)
        if self._disk_failure and self._random.random() < self._disk_failure:
            number = self._random.choice(_ERRORS)
            raise OSError(number, os.strerror(number), path)

    def _fails_task(self) -> bool:
        return self._task_failure > 0 and self._random.random() < self._task_failure

    def _on_output(self) -> None:
        if self._sink_failure and self._random.random() < self._sink_failure:
            raise ConnectionError("the simulated sink fails")

    def _on_store(self) -> None:
        if self._receiver_failure and self._random.random() < self._receiver_failure:
            raise ConnectionError("the simulated source fails")
