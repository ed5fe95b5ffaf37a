"""A scheduler and a generator under the manual clock, with a graph and a batch input that the test scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest
from tests.helpers import EventLog, do_nothing

from penstock.conf import Settings
from penstock.graph.call_site import CallSite
from penstock.graph.dstream_graph import DStreamGraph, GraphRuntime
from penstock.graph.outputs import Job
from penstock.listen.events import BatchCompleted, Event
from penstock.schedule.job_generator import JobGenerator, RecoveredBatches
from penstock.schedule.job_scheduler import JobScheduler, JobSet
from penstock_testing import ManualClock

INTERVAL_MS = 100

Work = Callable[[], object]


class Log(EventLog):
    """An event log whose entries are not typed."""

    def of(self, kind: type[Any]) -> list[Any]:
        """The entries of a class."""
        return super().of(kind)


def jobs(*works: Work) -> list[Job]:
    return [
        Job(n, CallSite("pprint", f"pprint at app.py:{n}", f"pprint at /app.py:{n}"), work)
        for n, work in enumerate(works)
    ]


class StubGraph(DStreamGraph):
    """Generates the jobs that the test says."""

    def __init__(self, log: Log) -> None:
        super().__init__(cast(Any, None), INTERVAL_MS)
        self._log = log
        #: Gives the jobs of a batch; may raise, like a program's functions.
        self.make: Callable[[int], Sequence[Work]] = lambda _time_ms: [do_nothing]
        self.num_outputs = 1
        self.remember_input_ms = INTERVAL_MS
        self.has_spark = True

    @property
    def is_spark_stopped(self) -> bool:
        return not self.has_spark

    def start(self, zero_time_ms: int) -> None:
        self._log.add(("start graph", zero_time_ms))

    def stop(self) -> None:
        self.stopping.set()
        self._log.add(("stop graph",))

    def generate_jobs(self, time_ms: int) -> list[Job]:
        self._log.add(("generate", time_ms))
        return jobs(*self.make(time_ms))

    def failed_jobs(self, error: BaseException) -> list[Job]:
        def fail() -> None:
            raise error

        return jobs(*[fail] * self.num_outputs)

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        self._log.add(("clear metadata", time_ms, unpersist))

    @property
    def max_input_remember_ms(self) -> int:
        return self.remember_input_ms


class StubBatchInput:
    """Records its calls."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.on_allocate: Callable[[int], object] = lambda _time_ms: None
        #: The batches that the last clean-up retained.
        self.retained: list[range] = []

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        self._log.add(("allocate", batch_time_ms))
        self.on_allocate(batch_time_ms)

    def clean_up(self, before_ms: int, retained: Sequence[range] = (), *, delete: bool) -> None:
        self.retained = list(retained)
        self._log.add(("clean up", before_ms, delete))

    def processed(self, until_ms: int, failed: Sequence[int]) -> None:
        self._log.add(("processed", until_ms, list(failed)))

    def pause(self, paused: bool) -> None:
        self._log.add(("pause", paused))

    @property
    def last_allocated_ms(self) -> int:
        return -1

    @property
    def has_unallocated_blocks(self) -> bool:
        return False


class Engine:
    """A scheduler and a generator. Events, and the calls of the graph and the batch input, are in the log."""

    def __init__(
        self,
        clock: ManualClock,
        concurrent_jobs: int = 1,
        *,
        unpersist: bool = True,
        drop_at: int = 0,
        pause_at: int = 0,
        max_failed: int = 0,
        skip_late: bool = False,
        generation_retries: int = 2,
        wal: bool = False,
        catch_up: str = "all",
        on_failed: str = "continue",
        is_recoverable: bool = False,
    ) -> None:
        self.clock = clock
        self.log = Log()
        self.errors: list[BaseException] = []
        self.graph = StubGraph(self.log)
        self.graph.runtime = GraphRuntime(generation_retries=generation_retries)
        self.batch_input = StubBatchInput(self.log)
        #: The reasons for which the program was given up.
        self.gave_up: list[BaseException] = []
        self.properties: Callable[[int, int], object] = lambda _time_ms, _id: None
        conf = {
            "spark.streaming.concurrentJobs": concurrent_jobs,
            "spark.streaming.unpersist": unpersist,
            "spark.penstock.maxPendingBatches": drop_at or pause_at,
            "spark.penstock.onMaxPendingBatches": "drop-oldest" if drop_at else "pause",
            "spark.penstock.maxFailedBatches": max_failed,
            "spark.penstock.lateTicks": "skip" if skip_late else "fire",
            "spark.streaming.receiver.writeAheadLog.enable": wal,
            "spark.penstock.checkpoint.catchUp": catch_up,
            "spark.penstock.onFailedBatch": on_failed,
        }
        self.settings = Settings.parse({name: str(value).lower() for name, value in conf.items()})
        self.scheduler = JobScheduler(
            self.settings,
            clock,
            lambda time_ms, id: self.properties(time_ms, id),
            self._post,
            self.errors.append,
            self.gave_up.append,
            is_recoverable=is_recoverable,
        )
        self.input_info = self.scheduler.input_info
        self.generator: JobGenerator | None = None

    def _post(self, event: Event) -> None:
        self.log.add(event)

    def start_scheduler(self) -> None:
        """Start the scheduler alone; the log has ``("complete", time_ms)`` for each completed batch."""
        self.scheduler.start(lambda time_ms: self.log.add(("complete", time_ms)))

    def start(
        self,
        batch_input: Any = None,
        checkpoints: Any = None,
        recovered: RecoveredBatches | None = None,
    ) -> JobGenerator:
        """Start the scheduler and a generator."""
        self.generator = JobGenerator(
            self.settings,
            self.clock,
            self.graph,
            self.scheduler,
            cast(Any, batch_input or self.batch_input),
            self.errors.append,
            checkpoints,
        )
        self.scheduler.start(self.generator.batch_completed)
        self.generator.start(recovered)
        return self.generator

    def settle(self) -> None:
        """Return when the scheduler's loop, and then the generator's, have handled everything posted so far."""
        # No public method waits until a loop has handled its events: the engine never does.
        loops: list[Any] = [self.scheduler._loop, *([self.generator._loop] if self.generator else [])]
        for loop in loops:
            handle, handled = loop._on_receive, threading.Event()
            loop._on_receive = lambda event, handle=handle: (
                event.set() if isinstance(event, threading.Event) else handle(event)
            )
            loop.post(handled)
            assert handled.wait(10)

    def submit(self, time_ms: int, *works: Work) -> None:
        """Submit a batch with these jobs."""
        self.scheduler.submit(JobSet(time_ms, jobs(*works), {}, self.clock.now_ms()))

    @property
    def events(self) -> list[Event]:
        """The events for listeners, in order."""
        return [entry for entry in self.log.entries if not isinstance(entry, tuple)]

    def of(self, what: str) -> list[tuple[Any, ...]]:
        """The arguments of the calls with a name."""
        return [entry[1:] for entry in self.log.entries if isinstance(entry, tuple) and entry[0] == what]

    @property
    def completed(self) -> list[int]:
        """The completed batches, in order."""
        return [event.batchInfo.batchTime for event in self.log.of(BatchCompleted)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_engine(clock: ManualClock) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def make(concurrent_jobs: int = 1, **options: Any) -> Engine:
        engines.append(Engine(clock, concurrent_jobs, **options))
        return engines[-1]

    yield make
    for engine in engines:
        if engine.generator is not None:
            engine.generator.stop(None)
        engine.scheduler.stop(1)


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()
