"""``Simulation``: a program under the faults of a seed, from its first start to its last stop, in virtual time."""

from __future__ import annotations

import functools
import hashlib
import operator
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random

from attrs import frozen
from pyspark import SparkContext

from penstock import PenstockError, StreamingContext
from penstock.spi import throttle
from penstock_testing.simulation import oracles
from penstock_testing.simulation.faults import FAULTS, Faults, SimulatedFault, check_names, plan
from penstock_testing.simulation.held_objects import held_objects
from penstock_testing.simulation.primitives import Twins
from penstock_testing.simulation.scheduler import Scheduler, SimulationError
from penstock_testing.simulation.simulated_cluster import SimulatedCluster, SimulatedSparkContext
from penstock_testing.simulation.simulated_disk import SimulatedDisk
from penstock_testing.simulation.simulated_network import SimulatedNetwork
from penstock_testing.simulation.simulated_program import World, create
from penstock_testing.simulation.substitutions import logged, substituted

_CHECKPOINT = "simulated:/checkpoint"
_CONF = {
    "spark.master": "local[8]",
    "spark.app.name": "simulated",
    "spark.streaming.receiver.writeAheadLog.enable": "true",
    "spark.streaming.gracefulStopTimeout": "60s",
    "spark.penstock.log.level": "INFO",
    "spark.python.unix.domain.socket.enabled": "true",
}
# A stop may last longer than its timeout: each closing step has some seconds of its own.
_STOP_TIMEOUT_S = 60 + 30.0
# Time for the receivers to come back and store everything, once there are no more faults.
_DRAIN_S = 180.0
_MOST_KINDS = 4
# A program that runs for this long without faults has deleted the blocks and RDDs that are this old, in seconds.
_QUIET_S, _UNUSED_S = 75.0, 50.0
# The fewest objects that it holds within a checkpoint interval are counted twice, this many seconds apart.
_CYCLE_S, _GROWTH_S = 10, 40.0


@frozen
class SimulationOutcome:
    """How a simulation ended.

    Attributes:
        seed: the seed; it gives the same outcome again.
        planned: the faults that were to happen.
        faults: how often each fault happened.
        trace: the history, a line for each event.
        virtual_s: the time that passed in the simulation, in seconds.
        steps: the number of times that the scheduler chose a thread.
        violations: what should have held and did not; empty for a correct engine.
        cpu_s: the processor time that the simulation took, in seconds.
    """

    seed: int
    planned: tuple[SimulatedFault, ...]
    faults: Mapping[str, int]
    trace: tuple[str, ...]
    virtual_s: float
    steps: int
    violations: tuple[str, ...] = ()
    cpu_s: float = 0.0

    @property
    def digest(self) -> str:
        """A hash of the history."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


class Simulation:
    """A program with two receivers, a window and state, which runs while faults happen, then to its end without them.

    Args:
        seed: decides everything that is left to chance: the program's settings, its input, faults, delays, and the
            order in which threads run.
        faults: what may happen, names of ``FAULTS``; or what happens, ``SimulatedFault`` objects in the order of their
            beginnings. By default the seed chooses some kinds.

    Raises:
        ValueError: a fault is unknown.
    """

    def __init__(self, seed: int, faults: Collection[str] | Sequence[SimulatedFault] | None = None) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        random = self.scheduler.random
        # Few kinds at a time: then each of them often meets the effects of another.
        some = random.sample(sorted(FAULTS), random.randint(1, _MOST_KINDS))
        self.scheduler.preemption = random.choice((0.02, 0.1, 0.5))
        self._storm_s = 5.0 + random.random() * 25.0
        planned = _planned(seed, some if faults is None else faults, self._storm_s)
        self.disk = SimulatedDisk(self.scheduler)
        self.network = SimulatedNetwork(self.scheduler)
        self.cluster = SimulatedCluster(self.scheduler, self.disk)
        self.world = World(self.scheduler, random.randint(10, 150), self._storm_s)
        self.faults = Faults(self, planned)
        # A power failure loses what was only flushed.
        weaker = "fsync" if "power" in self.faults.kinds else "flush"
        self.conf = {
            **_CONF,
            "spark.penstock.writeAheadLog.durability": random.choice(("fsync", weaker)),
            "spark.penstock.checkpoint.rebuild": random.choice(("false", "true")),
            "spark.penstock.onFailedBatch": random.choice(("continue", "retry")),
            "spark.streaming.backpressure.enabled": random.choice(("false", "true")),
            "spark.streaming.concurrentJobs": random.choice(("1", "1", "2")),
        }
        # Apart from everything else, so that programs without it have the same history as before it was there.
        self.maps_with_state = Random(f"program of {seed}").random() < 0.5
        #: The driver that runs the program.
        self.driver: Driver | None = None
        # Drivers that another one has replaced while they were suspended.
        self._replaced: list[Driver] = []
        self._drivers = 0
        self._is_over = False

    def run(self) -> SimulationOutcome:
        """Run to the end, and check what must hold then. Once."""
        scheduler, began_s = self.scheduler, time.process_time()
        throttle.reset()
        scheduler.note(f"seed {self.seed}, faults: {', '.join(self.faults.kinds) or 'none'}")
        with substituted(Twins(scheduler), self.network, self.cluster), logged(scheduler), self.world.entered():
            try:
                scheduler.run(self._main)
                oracles.check(
                    self.world, skips_times="clock" in self.faults.kinds, maps_with_state=self.maps_with_state
                )
            except SimulationError as error:
                self.world.violate(str(error))
        return SimulationOutcome(
            self.seed,
            tuple(self.faults.planned),
            dict(sorted(self.faults.counts.items())),
            tuple(scheduler.trace),
            scheduler.now_s,
            scheduler.steps,
            tuple(self.world.violations),
            time.process_time() - began_s,
        )

    def _main(self) -> None:
        scheduler = self.scheduler
        cluster_manager = scheduler.process("cluster manager").spawn("main", self._keep_running)
        self.faults.storm()
        scheduler.elapse(self._storm_s - scheduler.now_s)
        scheduler.note("no more faults")
        self.resume_all()
        deadline_s = scheduler.now_s + _DRAIN_S
        while not self.world.is_drained:
            scheduler.elapse(0.5)
            if scheduler.now_s > deadline_s:
                self.world.violate(f"not everything was acknowledged {_DRAIN_S:g} s after the last fault")
                break
        # Failed batches run again after a restart.
        self.stop_driver(graceful=True)
        quiet_s = scheduler.random.choice((5.0, 5.0, 5.0, _QUIET_S))
        if quiet_s == _QUIET_S:
            self._check_growth(quiet_s)
        else:
            scheduler.elapse(quiet_s)
        # What a replaced driver's jobs write when they are resumed, nobody knows.
        if quiet_s == _QUIET_S and "suspend" not in self.faults.kinds:
            oracles.check_files(self.world, self.disk, scheduler.now_s - _UNUSED_S)
        self._is_over = True
        self.stop_driver(graceful=True)
        scheduler.join(cluster_manager, _STOP_TIMEOUT_S)
        for driver in self._replaced:
            if not driver.process.is_dead:
                self.world.violate(f"{driver.process.name} was replaced, and still runs")

    def _check_growth(self, quiet_s: float) -> None:
        """Let time pass, and compare what the driver holds at its end and some time before."""
        self.scheduler.elapse(quiet_s - _GROWTH_S - _CYCLE_S)
        driver = self.driver
        before = self._fewest_held(driver)
        self.scheduler.elapse(_GROWTH_S - _CYCLE_S)
        after = self._fewest_held(driver)
        if driver is not None and driver is self.driver and not driver.process.is_dead:
            oracles.check_growth(self.world, before, after)

    def _fewest_held(self, driver: Driver | None) -> Counter[str]:
        """Let a checkpoint interval pass, and return the fewest objects of each class that the driver held during it.

        A lineage grows until a checkpoint cuts it, and a running batch has objects of its own: single counts differ by
        the moment at which they were made.
        """
        counts = list[Counter[str]]()
        for _ in range(_CYCLE_S):
            self.scheduler.elapse(1.0)
            counts.append(held_objects(None if driver is None else driver.ssc))
        return functools.reduce(operator.and_, counts)

    def _keep_running(self) -> None:
        """The cluster manager: start a driver whenever none runs."""
        scheduler = self.scheduler
        while not self._is_over:
            self._drivers += 1
            driver = self.driver = Driver(self, self._drivers)
            while self.driver is driver and not driver.process.is_dead:
                scheduler.join(driver.main, 0.5)
            if not self._is_over:
                scheduler.elapse(0.1 + scheduler.random.random() * 3.0)

    # -- what faults do --

    @property
    def context(self) -> SimulatedSparkContext | None:
        """The SparkContext of the driver, if it runs."""
        return None if self.driver is None or self.driver.process.is_dead else self.driver.context

    def kill_driver(self, *, orphaned_s: float = 0.0) -> None:
        """Kill the driver; its workers live on for a number of seconds."""
        driver = self.driver
        if driver is None or driver.process.is_dead:
            return
        if driver.context is not None:
            driver.context.orphaned_s = orphaned_s
        self.scheduler.kill(driver.process)

    def replace_driver(self) -> None:
        """Suspend the driver, so that the cluster manager starts another one."""
        driver = self.driver
        if driver is not None and not driver.process.is_dead:
            self.scheduler.suspend(driver.process)
            self._replaced.append(driver)
            self.driver = None

    def resume_all(self) -> None:
        """Resume the drivers that are suspended."""
        for driver in self._replaced:
            self.scheduler.resume(driver.process)

    def stop_driver(self, *, graceful: bool) -> None:
        """Have the program stop, and wait for the end of its driver."""
        driver = self.driver
        if driver is None or driver.process.is_dead or driver.stop:
            return
        driver.stop = "graceful" if graceful else "at once"
        self.scheduler.join(driver.main, _STOP_TIMEOUT_S)
        # A driver that was suspended meanwhile may take longer.
        if not driver.process.is_dead and driver not in self._replaced:
            self.world.violate(f"{driver.process.name} still runs {_STOP_TIMEOUT_S:g} s after it was asked to stop")
            self.scheduler.kill(driver.process)

    def may_end_by(self, driver: Driver, error: Exception) -> bool:
        """Whether an error may end a driver: it was replaced, its JVM is dead, or its disk fails."""
        if driver in self._replaced or (driver.context is not None and driver.context.is_jvm_dead):
            return True
        return "disk" in self.faults.kinds and isinstance(error, PenstockError | OSError)


class Driver:
    """A driver process: it recovers or begins the program, and runs it until somebody asks for a stop."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        #: How to stop, ``graceful`` or ``at once``; empty to run.
        self.stop = ""
        self.context: SimulatedSparkContext | None = None
        self.ssc: StreamingContext | None = None
        #: The version of the program that it runs.
        self.version = simulation.world.version
        self.process = simulation.scheduler.process(f"driver {number}")
        if simulation.conf["spark.penstock.checkpoint.rebuild"] == "true":
            simulation.world.versions[self.process] = self.version
        self.main = self.process.spawn("main", self._run)

    def _run(self) -> None:
        simulation = self._simulation
        sc = self.context = simulation.cluster.context(simulation.conf, self.process)
        SparkContext._active_spark_context = sc
        try:
            self.ssc = ssc = StreamingContext.getOrCreate(
                _CHECKPOINT, lambda: create(sc, self.version, maps_with_state=simulation.maps_with_state)
            )
            ssc.start()
            self._await(ssc)
            ssc.stop(stopSparkContext=True, stopGracefully=self.stop == "graceful")
        except Exception as error:
            simulation.scheduler.note(f"ended by {type(error).__name__}: {error}")
            if not simulation.may_end_by(self, error):
                simulation.world.violate(f"{self.process.name} ended by {type(error).__name__}: {error}")

    def _await(self, ssc: StreamingContext) -> None:
        while not self.stop:
            try:
                if ssc.awaitTerminationOrTimeout(0.5):
                    return
            except PenstockError as error:
                # A failed batch: the program continues.
                self._simulation.scheduler.note(f"raised by awaitTermination: {type(error).__name__}")
                if ssc.getState().name == "STOPPED":
                    raise


def _planned(
    seed: int, faults: Collection[str] | Sequence[SimulatedFault], duration_s: float
) -> tuple[SimulatedFault, ...]:
    planned = [fault for fault in faults if isinstance(fault, SimulatedFault)]
    kinds = [fault for fault in faults if isinstance(fault, str)]
    check_names(kinds)
    if planned and kinds:
        raise ValueError("faults are either all names or all SimulatedFault")
    # Generated apart from everything else, so that a simulation with fewer of these faults has the same program.
    return tuple(planned) or plan(Random(f"faults of {seed}"), kinds, duration_s)
