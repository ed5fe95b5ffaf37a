"""The engine on a simulated disk and network, for tests that explore every order of a protocol and its faults."""

from __future__ import annotations

from collections.abc import Callable

from penstock_testing.simulation.explore import Choices
from penstock_testing.simulation.primitives import Twins
from penstock_testing.simulation.scheduler import Scheduler, SimulatedProcess
from penstock_testing.simulation.simulated_cluster import SimulatedCluster
from penstock_testing.simulation.simulated_disk import SimulatedDisk
from penstock_testing.simulation.simulated_network import SimulatedNetwork
from penstock_testing.simulation.substitutions import logged, substituted


class ExploredEngine:
    """What the processes of one run share. Its faults, from ``explore`` on, are choices.

    The driver dies before an operation of the disk, by a kill or with the power of the machine. A request or an answer
    is lost.
    """

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.scheduler = Scheduler(0)
        self.scheduler.preemption = 0.0
        self.disk = SimulatedDisk(self.scheduler)
        self.network = ExploredNetwork(self.scheduler, self)
        self.cluster = SimulatedCluster(self.scheduler, self.disk)
        #: Whether faults may happen at this moment.
        self.is_explored = False
        #: The process of the driver, which may die, and all others, which end with the power.
        self.driver: SimulatedProcess | None = None
        self.others: list[SimulatedProcess] = []

    def run(self, main: Callable[[], object]) -> None:
        """Run a function as the first thread, and everything that it starts."""
        with substituted(Twins(self.scheduler), self.network, self.cluster), logged(self.scheduler):
            self.scheduler.run(main)

    def explore(self) -> None:
        """From now on order and faults are choices."""
        self.is_explored = True
        self.disk.fault = lambda _operation, _path: self.may_crash()
        self.choices.decide(self.scheduler)

    def loses(self) -> bool:
        """Whether a message is lost here."""
        return self.is_explored and self.choices.fault() == 1

    def may_crash(self) -> None:
        """Perhaps the driver is killed here, or the power fails."""
        if not self.is_explored or self.driver is None or self.driver.is_dead:
            return
        fault = self.choices.fault(2)
        if fault == 2:
            self.disk.fail_power()
        if fault:
            self.scheduler.note("power failure" if fault == 2 else "kill")
            killed = [self.driver, *(self.others if fault == 2 else ())]
            # The calling thread ends with its process, so that is the last one.
            running = self.scheduler.current
            for process in sorted(killed, key=lambda process: running is not None and process is running.process):
                self.scheduler.kill(process)


class ExploredNetwork(SimulatedNetwork):
    """A network whose losses are choices."""

    def __init__(self, scheduler: Scheduler, engine: ExploredEngine) -> None:
        super().__init__(scheduler)
        self._engine = engine

    def _loses(self, _probability: float) -> bool:
        return self._engine.loses()
