"""The engine on a simulated disk and network, for tests that explore the orders and the faults of a protocol."""

from __future__ import annotations

from collections.abc import Callable

from penstock_testing.simulation.explore import Choices
from penstock_testing.simulation.primitives import Twins
from penstock_testing.simulation.scheduler import Scheduler, SimulatedProcess
from penstock_testing.simulation.simulated_cluster import SimulatedCluster
from penstock_testing.simulation.simulated_disk import SimulatedDisk
from penstock_testing.simulation.simulated_network import SimulatedNetwork
from penstock_testing.simulation.substitutions import logged, substituted

# Operations that change files; "write" does where it does not append.
_CHANGES = ("flush", "fsync", "sync", "delete", "move")


class ExploredEngine:
    """What the processes of one run share. Its faults, from ``explore`` on, are choices.

    The driver dies before an operation changes the disk: by a ``kill``, or with the ``power`` of the machine, which
    ends all processes.
    """

    def __init__(self, choices: Choices, *crashes: str) -> None:
        self.choices = choices
        self.scheduler = Scheduler(0)
        self.scheduler.preemption = 0.0
        self.disk = SimulatedDisk(self.scheduler)
        self.network = ExploredNetwork(self.scheduler, choices)
        self.cluster = SimulatedCluster(self.scheduler, self.disk)
        #: The process of the driver.
        self.driver: SimulatedProcess | None = None
        self._crashes = crashes

    def run(self, main: Callable[[], object]) -> None:
        """Run a function as the first thread, and everything that it starts."""
        with substituted(Twins(self.scheduler), self.network, self.cluster), logged(self.scheduler):
            self.scheduler.run(main)

    def explore(self, *, orders: bool, losses: bool) -> None:
        """From now on crashes are choices, and so are the order of the threads and losses of messages if asked for."""
        self.disk.fault = self._before
        self.network.is_explored = losses
        if orders:
            self.choices.decide(self.scheduler)

    def _before(self, operation: str, path: str) -> None:
        # What a process appends stays with it until it is committed.
        is_change = path not in self.disk.files if operation == "write" else operation in _CHANGES
        if is_change:
            self.may_crash()

    def may_crash(self) -> None:
        """Perhaps the driver dies here."""
        driver = self.driver
        if driver is None or driver.is_dead or not (fault := self.choices.fault(len(self._crashes))):
            return
        crash = self._crashes[fault - 1]
        self.scheduler.note(crash)
        killed = [driver]
        if crash == "power":
            self.disk.fail_power()
            killed = [process for process in self.scheduler.processes if process.name != "simulation"]
        # The calling thread ends with its process, so that is the last one.
        running = self.scheduler.current
        for process in sorted(killed, key=lambda process: running is not None and process is running.process):
            self.scheduler.kill(process)


class ExploredNetwork(SimulatedNetwork):
    """A network whose losses are choices."""

    def __init__(self, scheduler: Scheduler, choices: Choices) -> None:
        super().__init__(scheduler)
        self._choices = choices
        self.is_explored = False

    def _loses(self, probability: float) -> bool:
        # What it replaces, outside the explored part.
        return self._choices.fault() == 1 if self.is_explored else super()._loses(probability)
