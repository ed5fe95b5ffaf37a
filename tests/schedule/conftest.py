"""A scheduler and a generator under the manual clock, with a graph and an intake that do what they are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from penstock.graph.call_site import CallSite
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.job import Job
from penstock.listen.events import BatchCompleted, Event
from penstock.runtime.clock import ManualClock
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.schedule.job_generator import JobGenerator
from penstock.schedule.job_scheduler import JobScheduler
from penstock.schedule.job_set import JobSet

INTERVAL_MS = 100

Work = Callable[[], object]


def nothing() -> None:
    """A job that has nothing to do."""


class Log:
    """What happened, in order; can be waited for."""

    def __init__(self) -> None:
        self._entries: list[Any] = []
        self._changed = threading.Condition()

    def add(self, entry: object) -> None:
        with self._changed:
            self._entries.append(entry)
            self._changed.notify_all()

    @property
    def entries(self) -> list[Any]:
        with self._changed:
            return list(self._entries)

    def of(self, kind: type) -> list[Any]:
        """The entries of a class."""
        return [entry for entry in self.entries if isinstance(entry, kind)]

    def await_count(self, kind: type, count: int = 1, timeout_s: float = 10) -> None:
        """Return once there are so many of a class."""

        def enough() -> bool:
            return sum(isinstance(each, kind) for each in self._entries) >= count

        with self._changed:
            assert self._changed.wait_for(enough, timeout_s), f"{count} {kind.__name__} in {self._entries}"

    def await_entry(self, entry: object) -> None:
        """Return once it is there."""
        with self._changed:
            assert self._changed.wait_for(lambda: entry in self._entries, 10), f"{entry} in {self._entries}"


class Gate:
    """Holds whoever comes until it is opened."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def open(self) -> None:
        self._open.set()

    def __call__(self) -> None:
        self.reached.set()
        assert self._open.wait(30)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def jobs(*works: Work) -> list[Job]:
    return [
        Job(n, CallSite("pprint", f"pprint at app.py:{n}", f"pprint at /app.py:{n}"), work)
        for n, work in enumerate(works)
    ]


class StubGraph(DStreamGraph):
    """Makes the jobs that the test says."""

    def __init__(self, log: Log) -> None:
        super().__init__(cast(Any, None), INTERVAL_MS)
        self._log = log
        #: From a batch time to what its outputs do; raises what the program's functions raise.
        self.make: Callable[[int], Sequence[Work]] = lambda _time_ms: [nothing]
        self.num_outputs = 1
        self.remember_input_ms = INTERVAL_MS

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


class StubIntake:
    """Notes what it is asked for."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.on_allocate: Callable[[int], object] = lambda _time_ms: None

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        self._log.add(("allocate", batch_time_ms))
        self.on_allocate(batch_time_ms)

    def clean_up(self, before_ms: int, *, delete: bool) -> None:
        self._log.add(("clean up", before_ms, delete))

    def processed(self, until_ms: int) -> None:
        """Nothing to note."""

    def pause(self, paused: bool) -> None:
        self._log.add(("pause", paused))

    @property
    def last_allocated_ms(self) -> int:
        return -1

    @property
    def has_unallocated_blocks(self) -> bool:
        return False


class Engine:
    """The parts that make and run batches. Events, and what the graph and the intake are asked for, are in the log."""

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
    ) -> None:
        self.clock, self.log = clock, Log()
        self.errors: list[BaseException] = []
        self.graph, self.intake, self.input_info = StubGraph(self.log), StubIntake(self.log), InputInfoTracker()
        #: Why the program should not go on.
        self.gave_up: list[BaseException] = []
        self.properties: Callable[[int, int], object] = lambda _time_ms, _id: None
        self.scheduler = JobScheduler(
            clock,
            concurrent_jobs,
            lambda time_ms, id: self.properties(time_ms, id),
            self._post,
            self.errors.append,
            drop_at=drop_at,
            max_failed=max_failed,
            on_give_up=self.gave_up.append,
        )
        self.scheduler.on_batch_completion = lambda time_ms: self.log.add(("complete", time_ms))
        self.generator: JobGenerator | None = None
        self._unpersist, self._pause_at, self._skip_late = unpersist, pause_at, skip_late

    def _post(self, event: Event) -> None:
        self.log.add(event)

    def start_scheduler(self) -> None:
        """Start what runs jobs, alone."""
        self.scheduler.start()

    def start(self) -> JobGenerator:
        """Start all."""
        self.generator = JobGenerator(
            self.clock,
            self.graph,
            self.scheduler,
            self.intake,
            self.input_info,
            unpersist=self._unpersist,
            on_error=self.errors.append,
            pause_at=self._pause_at,
            skip_late=self._skip_late,
        )
        self.scheduler.start()
        self.generator.start()
        return self.generator

    def settle(self) -> None:
        """Return when the scheduler's loop, and the generator's behind it, have handled all that was posted by now."""
        loops: list[Any] = [self.scheduler._loop, *([self.generator._loop] if self.generator else [])]
        for loop in loops:
            handle, handled = loop._on_receive, threading.Event()
            loop._on_receive = lambda event, handle=handle: (
                event.set() if isinstance(event, threading.Event) else handle(event)
            )
            loop.post(handled)
            assert handled.wait(10)

    def submit(self, time_ms: int, *works: Work) -> None:
        """Submit a batch that does this."""
        self.scheduler.submit(JobSet(time_ms, jobs(*works), {}, self.clock.now_ms()))

    @property
    def events(self) -> list[Event]:
        """The events for listeners, in order."""
        return [entry for entry in self.log.entries if not isinstance(entry, tuple)]

    def of(self, what: str) -> list[tuple[Any, ...]]:
        """What was asked for under a name, without the name."""
        return [entry[1:] for entry in self.log.entries if isinstance(entry, tuple) and entry[0] == what]

    @property
    def completed(self) -> list[int]:
        """The batches that are complete, in order."""
        return [event.batchInfo.batchTime for event in self.log.of(BatchCompleted)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_engine(clock: ManualClock) -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def make(concurrent_jobs: int = 1, **options: Any) -> Engine:
        made.append(Engine(clock, concurrent_jobs, **options))
        return made[-1]

    yield make
    for engine in made:
        if engine.generator is not None:
            engine.generator.stop(None)
        engine.scheduler.stop(1)


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()
