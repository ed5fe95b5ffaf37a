"""The faults of a simulation, which happen at moments that the seed decides."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock_testing.simulation.simulation import Simulation

#: Each fault, and what it does.
FAULTS = {
    "kill": "the driver and its workers are killed",
    "orphans": "the driver is killed, and its workers live on for some seconds",
    "power": "the power fails: the driver is killed, and the disk keeps what was synced and any part of the rest",
    "worker": "the worker process of a receiver is killed",
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
_ERRORS = (errno.ENOSPC, errno.EIO)


class Faults:
    """Makes faults of some kinds happen, and counts them."""

    def __init__(self, simulation: Simulation, kinds: Collection[str]) -> None:
        self._simulation = simulation
        self._random = simulation.scheduler.random
        self.kinds = sorted(kinds)
        self.counts: Counter[str] = Counter()
        # Probabilities that change for a while.
        self._task_failure = 0.0
        self._sink_failure = 0.0
        self._disk_failure = 0.0
        self._disk_delay_s = 0.0
        simulation.disk.fault = self._on_disk
        simulation.cluster.fails = self._fails_task
        simulation.world.fault = self._on_output

    def storm(self, duration_s: float) -> None:
        """Let faults happen for some seconds of virtual time; all that last have ended afterwards."""
        scheduler = self._simulation.scheduler
        end_s = scheduler.now_s + duration_s
        while self.kinds and scheduler.now_s < end_s:
            scheduler.sleep(self._random.random() * _PAUSE_S)
            kind = self._random.choice(self.kinds)
            self.counts[kind] += 1
            scheduler.note(f"fault: {kind}")
            getattr(self, f"_{kind}")()

    # -- one method for each kind --

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

    def _task(self) -> None:
        cluster = self._simulation.cluster
        was_s = cluster.task_s
        if self._random.random() < 0.5:
            cluster.task_s = 1.0
        else:
            self._task_failure = self._random.choice((0.1, 0.5, 0.9))
        self._last()
        cluster.task_s = was_s
        self._task_failure = 0.0

    def _sink(self) -> None:
        self._sink_failure = self._random.choice((0.2, 1.0))
        self._last()
        self._sink_failure = 0.0

    def _wire(self) -> None:
        network = self._simulation.network
        network.request_loss = self._random.choice((0.0, 0.2, 1.0))
        network.answer_loss = self._random.choice((0.0, 0.2, 1.0))
        network.delay_s = self._random.choice((0.003, 0.5, 3.0))
        self._last()
        network.heal()

    def _disk(self) -> None:
        if self._random.random() < 0.4:
            self._disk_delay_s = self._random.choice((0.1, 1.0))
        else:
            self._disk_failure = self._random.choice((0.05, 0.5, 1.0))
        self._last()
        self._disk_delay_s = self._disk_failure = 0.0

    def _clock(self) -> None:
        step_s = self._random.choice((-1, 1)) * (1 + self._random.random() * _LONGEST_STEP_S)
        self._simulation.scheduler.wall_ns += round(step_s * 1e9)

    def _suspend(self) -> None:
        self._simulation.replace_driver()
        self._last()
        self._simulation.resume_all()

    def _stop(self) -> None:
        self._simulation.stop_driver(graceful=self._random.random() < 0.5)

    def _last(self) -> None:
        self._simulation.scheduler.sleep(self._random.random() * _LAST_S)

    # -- called where a fault may strike --

    def _on_disk(self, operation: str, path: str) -> None:
        if self._disk_delay_s and operation != "write":
            self._simulation.scheduler.sleep(self._random.random() * self._disk_delay_s)
        if self._disk_failure and self._random.random() < self._disk_failure:
            number = self._random.choice(_ERRORS)
            raise OSError(number, os.strerror(number), path)

    def _fails_task(self) -> bool:
        return self._task_failure > 0 and self._random.random() < self._task_failure

    def _on_output(self) -> None:
        if self._sink_failure and self._random.random() < self._sink_failure:
            raise ConnectionError("the simulated sink fails")
