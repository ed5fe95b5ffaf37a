"""The simulator's scheduler and its twins of threads, locks, queues and clocks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock_testing.simulation.primitives import Twins
from penstock_testing.simulation.scheduler import ProcessKilled, Scheduler, SimulationError


def run(main: Callable[[Scheduler, Any], object], seed: int = 0) -> Scheduler:
    scheduler = Scheduler(seed)
    twins = Twins(scheduler)
    scheduler.run(lambda: main(scheduler, twins))
    assert not scheduler.processes
    return scheduler


def test_seed_decides_the_order_of_threads() -> None:
    def order(seed: int) -> list[int]:
        found: list[int] = []

        def main(scheduler: Scheduler, _twins: Any) -> None:
            process = scheduler.process("other")
            tasks = [process.spawn(f"thread {number}", partial(found.append, number)) for number in range(1, 6)]
            process.spawn("last", lambda: None)
            for task in tasks:
                scheduler.join(task)

        run(main, seed)
        return found

    orders = {tuple(order(seed)) for seed in range(10)}
    assert len(orders) > 3
    assert order(3) == order(3)


def test_sleep_takes_virtual_time_only() -> None:
    def main(scheduler: Scheduler, twins: Any) -> None:
        before_s, wall_s = twins.time.monotonic(), twins.time.time()
        twins.time.sleep(86_400)
        assert 86_400 <= twins.time.monotonic() - before_s < 86_401
        assert 86_400 <= twins.time.time() - wall_s < 86_401

    run(main)


def test_wait_ends_by_event_or_timeout() -> None:
    def main(scheduler: Scheduler, twins: Any) -> None:
        event = twins.threading.Event()
        assert not event.wait(1.0)
        assert 1.0 <= scheduler.now_s < 1.1
        thread = twins.threading.Thread(target=lambda: (twins.time.sleep(2.0), event.set()))
        thread.start()
        assert thread.is_alive()
        assert event.wait(60.0)
        assert scheduler.now_s < 4.0
        thread.join()
        assert not thread.is_alive()

    run(main)


def test_lock_excludes_other_threads() -> None:
    def main(scheduler: Scheduler, twins: Any) -> None:
        lock, inside = twins.threading.Lock(), list[int]()

        def work() -> None:
            with lock:
                inside.append(1)
                assert len(inside) == 1
                scheduler.yield_now()
                inside.pop()

        threads = [twins.threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not lock.locked()

    for seed in range(5):
        run(main, seed)


def test_reentrant_condition_releases_its_lock_wholly() -> None:
    def main(_scheduler: Scheduler, twins: Any) -> None:
        condition, values = twins.threading.Condition(), list[int]()

        def add() -> None:
            with condition:
                values.append(1)
                condition.notify()

        with condition, condition:
            twins.threading.Thread(target=add).start()
            assert condition.wait_for(lambda: values, 10.0)
            assert not condition.wait_for(lambda: False, 1.0)

    run(main)


def test_queue_blocks_and_has_timeouts() -> None:
    def main(_scheduler: Scheduler, twins: Any) -> None:
        bounded = twins.queue.Queue(1)
        bounded.put("a")
        with pytest.raises(queue.Full):
            bounded.put_nowait("b")
        with pytest.raises(queue.Full):
            bounded.put("b", timeout=1.0)
        twins.threading.Thread(target=lambda: bounded.put("b")).start()
        assert [bounded.get(), bounded.get()] == ["a", "b"]
        with pytest.raises(queue.Empty):
            bounded.get(timeout=1.0)

    run(main)


def test_future_waits_for_its_result() -> None:
    def main(_scheduler: Scheduler, twins: Any) -> None:
        future = twins.future()
        twins.threading.Thread(target=lambda: future.set_result(5)).start()
        assert future.result(10.0) == 5

    run(main)


def test_killed_process_has_no_effect_any_more() -> None:
    done: list[str] = []

    def main(scheduler: Scheduler, twins: Any) -> None:
        lock = twins.threading.Lock()

        def victim() -> None:
            try:
                with lock:
                    scheduler.elapse(10.0)
                done.append("after")
            finally:
                done.append("unwound")
                with lock:
                    done.append("lock taken after death")

        process = scheduler.process("victim")
        task = process.spawn("main", victim)
        scheduler.elapse(1.0)
        scheduler.kill(process)
        assert task.is_done
        assert process.is_dead
        assert not lock.locked()

    run(main)
    assert done == ["unwound"]


def test_process_may_kill_itself() -> None:
    def main(scheduler: Scheduler, _twins: Any) -> None:
        process = scheduler.process("suicide")

        def die() -> None:
            with pytest.raises(ProcessKilled):
                scheduler.kill(process)
            raise ProcessKilled

        scheduler.join(process.spawn("main", die), 10.0)
        assert process.is_dead

    run(main)


def test_end_of_the_first_thread_ends_a_process() -> None:
    ended: list[str] = []

    def main(scheduler: Scheduler, _twins: Any) -> None:
        process = scheduler.process("short")
        process.on_end.append(lambda: ended.append("process"))
        first = process.spawn("first", lambda: scheduler.elapse(1.0))
        daemon = process.spawn("daemon", lambda: scheduler.elapse(100.0))
        scheduler.join(first)
        assert daemon.is_done
        assert scheduler.now_s < 2.0

    run(main)
    assert ended == ["process"]


def test_suspended_process_continues_after_resume() -> None:
    ticks: list[float] = []

    def main(scheduler: Scheduler, _twins: Any) -> None:
        process = scheduler.process("ticker")

        def tick() -> None:
            for _ in range(3):
                scheduler.elapse(1.0)
                ticks.append(scheduler.now_s)

        task = process.spawn("main", tick)
        scheduler.elapse(1.5)
        scheduler.suspend(process)
        scheduler.elapse(10.0)
        assert len(ticks) == 1
        scheduler.resume(process)
        scheduler.join(task)

    run(main)
    assert ticks[0] < 1.1
    assert ticks[1] > 11.0


def test_every_process_has_its_own_value_of_a_global() -> None:
    class Holder:
        value = 0

    def main(scheduler: Scheduler, _twins: Any) -> None:
        scheduler.own(Holder, "value", 0)

        def set_and_check(number: int) -> None:
            assert Holder.value == 0
            Holder.value = number
            scheduler.elapse(1.0)
            assert Holder.value == number

        tasks = [
            scheduler.process(f"process {number}").spawn("main", partial(set_and_check, number)) for number in (1, 2)
        ]
        for task in tasks:
            scheduler.join(task)
        assert Holder.value == 0

    run(main)


def test_deadlock_is_an_error_with_the_places_of_all_threads() -> None:
    def main(_scheduler: Scheduler, twins: Any) -> None:
        twins.threading.Event().wait()

    with pytest.raises(
        SimulationError, match=r"every thread waits for ever:\nsimulation \| main\n(?s:.)*Event\(\)\.wait"
    ):
        run(main)


def test_endless_loop_is_an_error() -> None:
    scheduler = Scheduler(0, max_steps=100)

    def main() -> None:
        while True:
            scheduler.elapse(1.0)

    with pytest.raises(SimulationError, match=r"no end after 100 steps, \d+\.\d s of virtual time"):
        scheduler.run(main)


def test_error_of_a_thread_ends_the_simulation() -> None:
    def main(scheduler: Scheduler, _twins: Any) -> None:
        def fail() -> None:
            raise ValueError("wrong")

        scheduler.process("other").spawn("worker", fail)
        scheduler.elapse(1.0)

    with pytest.raises(SimulationError, match=r"worker of other:\n(?s:.)*ValueError: wrong"):
        run(main)


def test_error_of_the_first_function_is_raised() -> None:
    def main(_scheduler: Scheduler, _twins: Any) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(main)


def test_wait_outside_of_a_simulation_is_an_error() -> None:
    with pytest.raises(SimulationError, match="no thread of the simulation"):
        Scheduler(0).elapse(1.0)
    assert threading.current_thread() is threading.main_thread()
