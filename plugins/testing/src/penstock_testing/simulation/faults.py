"""The faults of a simulation, which happen at moments that the seed decides."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from penstock_testing.simulation.scheduler import Task

if TYPE_CHECKING:
    from penstock_testing.simulation.simulation import Simulation

#: Each fault, and what it does.
FAULTS = {
    "kill": "the driver and its workers are killed",
    "orphans": "the driver is killed, and its workers live on for some seconds",
    "power": "the power fails: the driver is killed, and the disk keeps what was synced and any part of the rest",
    "worker": "the worker process of a receiver is killed",
    "receiver": "the code of receivers raises errors for some seconds",
    "task": "tasks of batches fail, or take longer than the batch interval",
    "sink": "output operations fail for some seconds",
    "wire": "requests and answers between driver and receivers are lost, or late",
    "disk": "operations of the disk fail, or take long",
    "clock": "the wall clock is set forward or back",
    "suspend": "the driver is suspended while another one recovers, and resumed later",
    "stop": "the program is stopped, gracefully or at once, and started again",
}
# Times in seconds: the longest pause between two faults, and the longest duration of one that lasts.
_PAUSE_S, _LAST_S = 6.0, 4.0
_LONGEST_STEP_S = 8
# Faults of a moment; all others last.
_MOMENTARY = {"kill", "orphans", "power", "worker", "clock", "stop"}
_ERRORS = (errno.ENOSPC, errno.EIO)


class Faults:
    """Makes faults of some kinds happen, and counts them. Faults that last may overlap with all others."""

    def __init__(self, simulation: Simulation, kinds: Collection[str]) -> None:
        self._simulation = simulation
        self._random = simulation.scheduler.random
        self.kinds = sorted(kinds)
        self.counts: Counter[str] = Counter()
        # The faults that last now.
        self._lasting: set[str] = set()
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

    def storm(self, duration_s: float) -> None:
        """Let faults happen for some seconds of virtual time; all that last have ended afterwards."""
        scheduler, tasks = self._simulation.scheduler, list[Task]()
        process, end_s = scheduler.process("faults"), scheduler.now_s + duration_s
        # A process ends with its first thread.
        tasks.append(process.spawn("storm", partial(scheduler.elapse, duration_s + _PAUSE_S + _LAST_S)))
        while self.kinds and scheduler.now_s < end_s:
            scheduler.elapse(self._random.random() * _PAUSE_S)
            kind = self._random.choice(self.kinds)
            if kind in self._lasting:
                continue
            self.counts[kind] += 1
            scheduler.note(f"fault: {kind}")
            if kind in _MOMENTARY:
                getattr(self, f"_{kind}")()
            else:
                self._lasting.add(kind)
                tasks.append(process.spawn(kind, partial(self._last, kind)))
        for task in reversed(tasks):
            scheduler.join(task)

    def _last(self, kind: str) -> None:
        end = getattr(self, f"_{kind}")()
        self._simulation.scheduler.elapse(self._random.random() * _LAST_S)
        self._simulation.scheduler.note(f"end of fault: {kind}")
        end()
        self._lasting.remove(kind)

    # -- faults of a moment --

    def _kill(self) -> None:
        self._simulation.kill_driver(orphans=False)

    def _orphans(self) -> None:
        self._simulation.kill_driver(orphans=True)

    def _power(self) -> None:
        self._simulation.kill_driver(orphans=False)
        self._simulation.disk.fail_power()

    def _worker(self) -> None:
        workers = self._simulation.receiver_workers()
        if workers:
            self._simulation.scheduler.kill(self._random.choice(workers))

    def _clock(self) -> None:
        step_s = self._random.choice((-1, 1)) * (1 + self._random.random() * _LONGEST_STEP_S)
        self._simulation.scheduler.wall_ns += round(step_s * 1e9)

    def _stop(self) -> None:
        self._simulation.stop_driver(graceful=self._random.random() < 0.5)

    # -- faults that last; each returns the function that ends it --

    def _task(self) -> Callable[[], object]:
        cluster, is_slow = self._simulation.cluster, self._random.random() < 0.5
        was_s, cluster.task_s = cluster.task_s, 1.0 if is_slow else cluster.task_s
        self._task_failure = 0.0 if is_slow else self._random.choice((0.1, 0.5, 0.9))

        def end() -> None:
            cluster.task_s = was_s
            self._task_failure = 0.0

        return end

    def _sink(self) -> Callable[[], object]:
        self._sink_failure = self._random.choice((0.2, 1.0))
        return lambda: setattr(self, "_sink_failure", 0.0)

    def _receiver(self) -> Callable[[], object]:
        self._receiver_failure = self._random.choice((0.1, 0.5))
        return lambda: setattr(self, "_receiver_failure", 0.0)

    def _wire(self) -> Callable[[], object]:
        network = self._simulation.network
        network.request_loss = self._random.choice((0.0, 0.2, 1.0))
        network.answer_loss = self._random.choice((0.0, 0.2, 1.0))
        network.delay_s = self._random.choice((0.003, 0.5, 3.0))
        return network.heal

    def _disk(self) -> Callable[[], object]:
        if self._random.random() < 0.4:
            self._disk_delay_s = self._random.choice((0.1, 1.0))
        else:
            self._disk_failure = self._random.choice((0.05, 0.5, 1.0))

        def end() -> None:
            self._disk_delay_s = self._disk_failure = 0.0

        return end

    def _suspend(self) -> Callable[[], object]:
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
