"""A generator that recovers: which batches it generates, in which order, how many at a time, and what it saves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import pytest
from attrs import evolve, frozen
from tests.helpers import Gate, run_in_background
from tests.helpers.runs import stop_while_it_ticks
from tests.schedule.conftest import INTERVAL_MS, Engine, Log

from penstock.listen.events import BatchCompleted, StreamInputInfo
from penstock.schedule import due_batches, job_generator
from penstock.schedule.job_generator import RecoveredBatches
from penstock.schedule.unfinished_batches import UnfinishedBatches
from penstock_testing import ManualClock

NOTHING_PENDING = RecoveredBatches(zero_time_ms=0, last_time_ms=500, pending=frozenset(), state_ms=None)


@frozen
class Saved:
    last_time_ms: int
    pending: tuple[int, ...]
    needed_ms: int
    late: tuple[range, ...] = ()
    skipped: tuple[range, ...] = ()


class RecordingCheckpoints:
    """Records what is saved."""

    recoverable_ms: int | None = 0

    def __init__(self, log: Log) -> None:
        self._log = log

    def begin(self, zero_time_ms: int) -> None:
        self._log.add(("begin", zero_time_ms))

    def save(self, batches: UnfinishedBatches, needed_ms: int, skipped: Sequence[range]) -> None:
        self.failed = sorted(batches.failed)
        late = tuple(batches.never_begun)
        self._log.add(Saved(batches.generated_ms, tuple(batches.to_run), needed_ms, late, tuple(skipped)))


class Recovering:
    """An engine that recovers batches at a given time."""

    def __init__(self, recovered: RecoveredBatches, now_ms: int, **conf: Any) -> None:
        self.clock = ManualClock(now_ms)
        self.engine = Engine(self.clock, wal=True, **conf)
        self.recovered: RecoveredBatches | None = recovered
        self.log = self.engine.log
        self.unallocated: Callable[[], bool] = lambda: False
        self.spans_batches = False
        self.last_allocated_ms = -1

    def start(self) -> Recovering:
        engine, outer = self.engine, self

        class ScriptedInput:
            """The engine's batch input, with unallocated blocks as the test says."""

            has_unallocated_blocks = property(lambda _self: outer.unallocated())
            last_allocated_ms = property(lambda _self: outer.last_allocated_ms)

            def __getattr__(self, name: str) -> Any:
                return getattr(engine.batch_input, name)

        graph_type = type(engine.graph)
        engine.graph.__class__ = type(
            "Graph", (graph_type,), {"needs_every_batch": property(lambda _self: outer.spans_batches)}
        )
        engine.start(cast(Any, ScriptedInput()), RecordingCheckpoints(self.log), self.recovered)
        return self

    @property
    def generated(self) -> list[int]:
        return [time_ms for (time_ms,) in self.engine.of("generate")]

    @property
    def saved(self) -> list[Saved]:
        return self.log.of(Saved)

    def tick(self) -> None:
        self.clock.await_waiters()
        self.clock.advance(INTERVAL_MS)

    def close(self) -> None:
        if self.engine.generator is not None:
            self.engine.generator.abandon()
            self.engine.generator.stop(None)
        self.engine.scheduler.stop(1)


@pytest.fixture
def recovering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Recovering]]:
    runs: list[Recovering] = []

    def make(now_ms: int, catch_up: str = "all", catch_up_batches: int = 10, **left: Any) -> Recovering:
        monkeypatch.setattr(due_batches, "_CATCH_UP_BATCHES", catch_up_batches)
        recovered = evolve(NOTHING_PENDING, **left)
        runs.append(Recovering(recovered, now_ms, catch_up=catch_up))
        return runs[-1]

    yield make
    for run in runs:
        run.close()


@pytest.mark.parametrize(
    ("pending", "last", "start", "due"),
    [
        ((), 500, 600, []),
        ((500,), 500, 600, [range(500, 501)]),
        ((), 500, 900, [range(600, 900, 100)]),
        ((500, 300), 500, 700, [range(300, 301), range(500, 501), range(600, 700, 100)]),
        ((), 500, 300, []),
    ],
)
def test_pending_batches_and_those_of_the_downtime_are_due(
    pending: tuple[int, ...], last: int, start: int, due: list[range]
) -> None:
    assert evolve(NOTHING_PENDING, last_time_ms=last, pending=frozenset(pending)).due(start, INTERVAL_MS) == due


def test_late_batches_come_before_ticks_oldest_first(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=840, pending=frozenset({500, 300})).start()
    run.log.await_count(BatchCompleted, 5)
    run.tick()
    run.log.await_count(BatchCompleted, 6)
    assert run.generated == run.engine.completed == [300, 500, 600, 700, 800, 900]
    assert run.engine.of("start graph") == [(0,)]
    # The graph does not give files of today to these batches.
    assert run.engine.graph.late_until_ms == 800
    assert not run.engine.errors


def test_without_late_batches_the_first_tick_is_the_next_one(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=540).start()
    run.tick()
    run.log.await_count(BatchCompleted)
    assert run.generated == [600]


# With the clock at 450, the next tick would be the last batch of the earlier run.
@pytest.mark.parametrize("now_ms", [250, 450])
def test_batch_times_continue_at_once_although_the_clock_was_set_back(
    recovering: Callable[..., Recovering], caplog: pytest.LogCaptureFixture, now_ms: int
) -> None:
    run = recovering(now_ms=now_ms, pending=frozenset({500})).start()
    run.log.await_count(BatchCompleted)
    for _ in range(2):
        run.tick()
    run.log.await_count(BatchCompleted, 3)
    assert run.generated == [500, 600, 700]
    assert "wall clock behind last batch" in caplog.text
    assert caplog.text.count("ahead of the wall clock") == 1


def test_catching_up_keeps_to_the_limit_of_pending_batches(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=2040, catch_up_batches=3)
    pending: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        with lock:
            pending.append(len(run.engine.scheduler.pending_batches))

    run.engine.graph.make = lambda _time_ms: [work]
    run.start()
    run.log.await_count(BatchCompleted, 15)
    assert run.generated == list(range(600, 2001, 100))
    assert max(pending) <= 3


def test_late_batches_that_wait_are_saved_as_one_range(recovering: Callable[..., Recovering], gate: Gate) -> None:
    run = recovering(now_ms=86_400_040, pending=frozenset({500}), catch_up_batches=3)
    run.engine.graph.make = lambda _time_ms: [gate]
    run.start()
    run.log.await_count(Saved, 3)
    assert [(saved.last_time_ms, saved.pending, saved.late) for saved in run.saved] == [
        (86_400_000, (500,), (range(600, 86_400_100, 100),)),
        (86_400_000, (500, 600), (range(700, 86_400_100, 100),)),
        (86_400_000, (500, 600, 700), (range(800, 86_400_100, 100),)),
    ]


def test_skipped_times_are_saved_while_a_state_may_be_recovered_from_before_them(
    recovering: Callable[..., Recovering], monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier, later = range(300, 500, 100), range(900, 3_600_900, 100)
    run = recovering(now_ms=740, last_time_ms=700, skipped=[earlier]).start()
    run.tick()
    run.log.await_count(BatchCompleted, 1)
    run.clock.step(3_600_000)
    run.tick()
    run.log.await_count(BatchCompleted, 2)
    run.engine.settle()
    assert run.generated == [800, 3_600_900]
    assert list(run.saved[-1].skipped) == [earlier, later]
    monkeypatch.setattr(RecordingCheckpoints, "recoverable_ms", 500)
    run.tick()
    run.log.await_count(BatchCompleted, 3)
    run.engine.settle()
    assert list(run.saved[-1].skipped) == [later]
    # Without a state, nothing is recomputed.
    monkeypatch.setattr(RecordingCheckpoints, "recoverable_ms", None)
    run.tick()
    run.log.await_count(BatchCompleted, 4)
    run.engine.settle()
    assert list(run.saved[-1].skipped) == []


def test_skipped_times_are_no_batches_of_the_downtime(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=3_600_940, last_time_ms=700, skipped=[range(900, 3_600_800, 100)]).start()
    run.log.await_count(BatchCompleted, 3)
    assert run.generated == [800, 3_600_800, 3_600_900]


def test_pending_batches_that_wait_stay_pending(recovering: Callable[..., Recovering], gate: Gate) -> None:
    # The earlier run has begun them: their data must not go to another batch.
    run = recovering(now_ms=840, pending=frozenset({300, 500}), catch_up_batches=1)
    run.engine.graph.make = lambda _time_ms: [gate]
    run.start()
    run.log.await_count(Saved)
    assert (run.saved[0].pending, run.saved[0].late) == ((300, 500), (range(600, 900, 100),))
    gate.open()
    run.log.await_count(BatchCompleted, 5)
    run.engine.settle()
    assert (run.saved[-1].pending, run.saved[-1].late) == ((), ())


def test_late_batches_of_an_earlier_run_are_generated(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=840, pending=frozenset({300}), late=[range(400, 600, 100)]).start()
    run.log.await_count(BatchCompleted, 6)
    assert run.generated == [300, 400, 500, 600, 700, 800]


def test_late_batch_being_generated_during_a_stop_is_saved_as_pending(
    recovering: Callable[..., Recovering], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_generator, "_LAST_EVENT_S", 0.01)
    run = recovering(now_ms=740, pending=frozenset({300}))

    def make(_time_ms: int) -> list[Callable[[], object]]:
        gate()
        return [lambda: None]

    run.engine.graph.make = make
    generator = run.start().engine.generator
    assert generator is not None
    assert gate.reached.wait(10)
    assert not generator.stop(None)
    generator.save()
    assert (run.saved[-1].last_time_ms, run.saved[-1].pending) == (700, (300,))
    assert run.saved[-1].late == (range(600, 800, 100),)
    assert run.saved[-1].needed_ms <= 300 - INTERVAL_MS


def test_blocks_of_late_batches_are_saved_as_needed(recovering: Callable[..., Recovering], gate: Gate) -> None:
    run = recovering(now_ms=940, pending=frozenset({300}), catch_up_batches=1)
    run.engine.graph.make = lambda time_ms: [gate] if time_ms == 300 else [lambda: None]
    run.start()
    assert gate.reached.wait(10)
    assert all(saved.needed_ms <= 300 - INTERVAL_MS for saved in run.saved)
    gate.open()
    run.log.await_count(BatchCompleted, 5)
    for saved in run.saved:
        assert saved.needed_ms <= min([saved.last_time_ms, *saved.pending, *map(min, saved.late)]) - INTERVAL_MS


@pytest.mark.parametrize(("spans_batches", "made"), [(False, [500, 800, 900]), (True, [500, 600, 700, 800, 900])])
def test_empty_late_batches_are_skipped_unless_a_stream_spans_batches(
    spans_batches: bool, made: list[int], recovering: Callable[..., Recovering]
) -> None:
    run = recovering(now_ms=840, pending=frozenset({500}), catch_up="skip-empty")
    run.spans_batches = spans_batches
    asked: list[bool] = []

    def unallocated() -> bool:
        # Blocks arrive when the third late batch is examined.
        asked.append(len(asked) == 2)
        return asked[-1]

    run.unallocated = unallocated
    run.start()
    run.log.await_count(BatchCompleted, len(made) - 1)
    run.tick()
    run.log.await_count(BatchCompleted, len(made))
    assert run.generated == made


def test_late_batch_with_allocated_blocks_is_not_skipped(recovering: Callable[..., Recovering]) -> None:
    # The driver died between the allocation and its checkpoint.
    run = recovering(now_ms=840, pending=frozenset({500}), catch_up="skip-empty")
    run.last_allocated_ms = 600
    run.start()
    run.log.await_count(BatchCompleted, 2)
    run.tick()
    run.log.await_count(BatchCompleted, 3)
    assert run.generated == [500, 600, 900]


def test_graceful_stop_waits_for_late_batches(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=1540, catch_up_batches=1).start()
    generator = run.engine.generator
    assert generator is not None
    done: list[bool] = []
    # Holds the race open: the timer ticks while it stops.
    stop_while_it_ticks(generator._timer, run.clock, lambda: done.append(generator.stop(time.monotonic() + 30)))
    assert done == [True]
    assert run.generated[:10] == list(range(600, 1501, 100))
    assert run.engine.scheduler.pending_batches == []


def test_allocated_batches_are_late_although_the_clock_was_set_back(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=100)
    # The driver died between the allocation to a batch and its checkpoint.
    run.last_allocated_ms = 700
    run.start()
    run.log.await_count(BatchCompleted, 2)
    run.tick()
    run.log.await_count(BatchCompleted, 3)
    assert run.generated == run.engine.completed == [600, 700, 800]


def test_graceful_stop_processes_remaining_blocks_although_the_timer_is_cut_short(
    recovering: Callable[..., Recovering], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovering(now_ms=550)
    run.unallocated = lambda: run.generated != [600]
    generator = run.start().engine.generator
    assert generator is not None
    # Holds the race open: the timer ends before its last tick.
    monkeypatch.setattr(generator._timer, "stop", lambda **_options: -1)
    assert generator.stop(time.monotonic() + 30)
    assert run.generated == run.engine.completed == [600]


def test_graceful_stop_reports_remaining_blocks(
    recovering: Callable[..., Recovering], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovering(now_ms=550)
    run.unallocated = lambda: True
    generator = run.start().engine.generator
    assert generator is not None
    # Holds the race open: the timer ends before its last tick.
    monkeypatch.setattr(generator._timer, "stop", lambda **_options: -1)
    assert not generator.stop(time.monotonic() + 30)
    assert run.generated == [600]


def test_abandon_ends_the_wait_for_late_batches(
    recovering: Callable[..., Recovering], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_generator, "_LAST_EVENT_S", 0.01)
    run = recovering(now_ms=840)

    def make(_time_ms: int) -> list[Callable[[], object]]:
        gate()
        return []

    run.engine.graph.make = make
    generator = run.start().engine.generator
    assert generator is not None
    assert gate.reached.wait(10)
    stopping = run_in_background(lambda: generator.stop(time.monotonic() + 30))
    generator.abandon()
    assert stopping.result(timeout=10) is False


def test_abandoned_stop_generates_no_batch_for_remaining_blocks(
    recovering: Callable[..., Recovering], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovering(now_ms=550)
    run.unallocated = lambda: True
    generator = run.start().engine.generator
    assert generator is not None
    generator.abandon()
    # Holds the race open: otherwise the stop might drop what it has begun.
    monkeypatch.setattr(generator._loop, "stop", partial(generator._loop.stop, drain=True))
    assert not generator.stop(time.monotonic() + 30)
    assert run.generated == []


@pytest.mark.parametrize("grace_s", [None, 0.0], ids=["at once", "at the deadline"])
def test_batch_whose_retries_are_cut_short_by_a_stop_is_not_complete(
    grace_s: float | None, recovering: Callable[..., Recovering]
) -> None:
    run = recovering(now_ms=540, pending=frozenset({500}))
    begun = threading.Event()

    def make_again() -> None:
        # Like an output whose RDD could not be generated.
        begun.set()
        assert run.engine.graph.stopping.wait(30)
        raise RuntimeError("its RDD could not be made")

    run.engine.graph.make = lambda _time_ms: [make_again]
    generator = run.start().engine.generator
    assert generator is not None
    assert begun.wait(10)
    generator.stop(None if grace_s is None else time.monotonic() + grace_s)
    run.engine.scheduler.stop(30)
    generator.save()
    assert run.log.of(BatchCompleted)[0].batchInfo.succeeded is False
    assert run.saved[-1].pending == (500,)


def test_regenerated_batches_report_their_number_of_records(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=640, pending=frozenset({500}))

    def make(time_ms: int) -> list[Callable[[], object]]:
        run.engine.input_info.report(time_ms, StreamInputInfo(0, time_ms // 100))
        return [lambda: None]

    run.engine.graph.make = make
    run.start()
    run.log.await_count(BatchCompleted, 2)
    assert {event.batchInfo.batchTime: event.batchInfo.numRecords for event in run.log.of(BatchCompleted)} == {
        500: 5,
        600: 6,
    }


def test_state_is_recomputed_after_the_checkpointed_batch(recovering: Callable[..., Recovering], gate: Gate) -> None:
    run = recovering(now_ms=540, pending=frozenset({500}), state_ms=200)
    run.engine.graph.make = lambda _time_ms: [gate]
    made: list[int] = []
    run.engine.graph.advance_state = made.extend  # type: ignore[method-assign, assignment]
    run.start()
    assert gate.reached.wait(10)
    assert made == [300, 400]
    assert run.generated == [500]


def test_state_is_recomputed_between_batches_that_run_again(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=840, pending=frozenset({300, 600}), last_time_ms=700, state_ms=200)
    computed: list[int] = []

    def advance_state(times_ms: range) -> None:
        computed.extend(times_ms)

    def make(time_ms: int) -> list[Callable[[], object]]:
        computed.append(time_ms)
        return [lambda: None]

    run.engine.graph.make = make
    run.engine.graph.advance_state = advance_state  # type: ignore[method-assign, assignment]
    run.start()
    run.log.await_count(BatchCompleted, 3)
    run.tick()
    run.log.await_count(BatchCompleted, 4)
    assert run.generated == [300, 600, 800, 900]
    assert computed == list(range(300, 901, 100))


def test_state_is_not_computed_for_times_that_a_step_of_the_clock_skips(
    recovering: Callable[..., Recovering],
) -> None:
    run = recovering(now_ms=840, last_time_ms=700, state_ms=600)
    computed: list[int] = []
    run.engine.graph.advance_state = computed.extend  # type: ignore[method-assign, assignment]
    run.start()
    run.log.await_count(BatchCompleted, 1)
    run.clock.step(3_600_000)
    run.tick()
    run.log.await_count(BatchCompleted, 2)
    # The states of the skipped times would have timed out in batches that nobody runs.
    assert (computed, run.generated) == ([700], [800, 3_600_900])


def test_failed_start_saves_no_checkpoint(recovering: Callable[..., Recovering]) -> None:
    run = recovering(now_ms=1040, pending=frozenset({500}), state_ms=300)

    def advance_state(_times: object) -> None:
        raise RuntimeError("the database is down")

    run.engine.graph.advance_state = advance_state  # type: ignore[method-assign, assignment]
    with pytest.raises(RuntimeError, match="database"):
        run.start()
    generator = run.engine.generator
    assert generator is not None
    generator.stop(None)
    generator.save()
    # The checkpoint that it recovers from stays the newest.
    assert run.saved == []


@pytest.mark.parametrize("zero_time_ms", [0, 1000])
def test_last_batch_of_a_run_without_batches_is_its_zero_time(
    recovering: Callable[..., Recovering], zero_time_ms: int
) -> None:
    run = recovering(now_ms=zero_time_ms + 40)
    run.recovered = None
    generator = run.start().engine.generator
    assert generator is not None
    generator.stop(None)
    generator.save()
    assert run.saved[-1] == Saved(zero_time_ms, (), -1 - INTERVAL_MS)
