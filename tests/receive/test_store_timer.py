"""Where the time of a receiver's threads goes: the waits are timed, and they partition the time of these threads."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import await_blocked, wait_for

from penstock.listen.events import StoreTimes
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.messages import AddBlocks
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.receive.store_timer import StoreTimer
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, FakeStore, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Cpu:
    """CPU time of each thread, as a test says."""

    def __init__(self) -> None:
        self.used_s: dict[int, float] = {}

    def use(self, seconds: float) -> None:
        self.used_s[threading.get_ident()] = self() + seconds

    def __call__(self) -> float:
        return self.used_s.get(threading.get_ident(), 0.0)


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


@pytest.fixture
def timer(clock: ManualClock, cpu: Cpu) -> StoreTimer:
    return StoreTimer(clock, cpu)


def test_each_wait_counts_for_what_it_waits_for(timer: StoreTimer, clock: ManualClock) -> None:
    with timer.waiting("limiter"):
        clock.advance(100)
    clock.advance(1000)
    with timer.waiting("disk"):
        clock.advance(20)
    with timer.waiting("driver"):
        clock.advance(3)
    with timer.waiting("buffer"):
        clock.advance(50)
    assert timer.times() == StoreTimes(elapsed=1173, limiter=100, disk=20, driver=3, buffer=50)


def test_wait_that_has_not_ended_counts_up_to_now_and_never_twice(timer: StoreTimer, clock: ManualClock) -> None:
    clock.advance(5)
    with timer.waiting("limiter"):
        for _second in range(3):
            clock.advance(1000)
            seen = timer.times()
        assert seen == StoreTimes(elapsed=3005, limiter=3000)
        clock.advance(7)
    assert timer.times() == StoreTimes(elapsed=3012, limiter=3007)


def test_code_is_the_cpu_time_between_the_waits(timer: StoreTimer, clock: ManualClock, cpu: Cpu) -> None:
    timer.note_code()
    cpu.use(0.2)
    clock.advance(300)
    with timer.waiting("disk"):
        # The file is encoded and written in it.
        cpu.use(0.05)
        clock.advance(100)
    cpu.use(0.1)
    clock.advance(100)
    timer.note_code()
    assert timer.times() == StoreTimes(elapsed=500, disk=100, code=300)


def test_threads_that_store_count_each_and_idle_ones_do_not(
    timer: StoreTimer, clock: ManualClock, background: Background
) -> None:
    gate = threading.Event()

    def wait() -> None:
        with timer.waiting("limiter"):
            gate.wait(30)

    calls = [background(wait) for _ in range(2)]
    await_blocked(wait, 2)
    clock.advance(1000)
    assert timer.times() == StoreTimes(elapsed=2000, limiter=2000)
    gate.set()
    for call in calls:
        call.result(timeout=30)
    timer.times()
    clock.advance(1000)
    assert timer.times() == StoreTimes(elapsed=3000, limiter=2000)


def test_engine_threads_are_no_time_of_the_receiver(timer: StoreTimer, clock: ManualClock, cpu: Cpu) -> None:
    with timer.waiting("storing"):
        cpu.use(1)
        clock.advance(10)
    with timer.waiting("reporting"):
        clock.advance(5)
    assert timer.times() == StoreTimes(elapsed=15, storing=10, reporting=5)


def test_number_of_an_ended_thread_is_used_again(timer: StoreTimer, cpu: Cpu) -> None:
    cpu.use(10)
    timer.note_code()
    cpu.use(-9)
    timer.note_code()
    cpu.use(1)
    timer.note_code()
    assert timer.times().code == 1000


# -- in a receiver --


def times_of(log: EventLog) -> StoreTimes:
    return [StoreTimes(), *(message.times for message in log.of(AddBlocks) if message.times is not None)][-1]


def test_silent_receiver_reports_its_times_every_six_seconds(
    supervise: Supervise, receiver: Noting, clock: ManualClock, log: EventLog
) -> None:
    supervise(receiver).start()
    for number, advanced_ms in enumerate((5000, 6000), 1):
        clock.await_waiters(1)
        clock.advance(advanced_ms)
        log.await_count(AddBlocks, number)
    assert [message.times for message in log.of(AddBlocks)] == [StoreTimes(5000), StoreTimes(11_000)]
    assert not any(message.blocks for message in log.of(AddBlocks))
    assert times_of(log) == StoreTimes(elapsed=11_000)


def test_wait_for_the_rate_limit_is_reported_while_it_lasts(
    supervise: Supervise, receiver: Noting, clock: ManualClock, log: EventLog, background: Background
) -> None:
    supervise(receiver, {"spark.streaming.receiver.maxRate": "1"}).start()

    def store() -> None:
        for number in range(20):
            receiver.store(number)

    storing = background(store)
    await_blocked(RateLimiter.acquire)
    for _interval in range(15):
        clock.advance(200)
    wait_for(lambda: times_of(log).limiter > 1000, "the waits are reported")
    times = times_of(log)
    assert times.limiter <= times.elapsed <= 3000
    assert times.elapsed - times.limiter < 1000
    receiver.stop("enough")
    with pytest.raises(Exception, match="stopped"):
        storing.result(timeout=30)


def test_full_disk_is_a_wait_for_the_disk_although_the_limiter_holds_the_receiver(
    supervise: Supervise,
    receiver: Noting,
    clock: ManualClock,
    log: EventLog,
    store: FakeStore,
    background: Background,
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    clock.await_waiters(1)
    store.error, store.failures = OSError(errno.ENOSPC, "No space left on device"), 1000
    receiver.store("waits for the disk")
    clock.advance(200)
    wait_for(lambda: supervisor.state.is_paused, "the receiver is paused")
    storing = background(lambda: receiver.store("is held"))
    await_blocked(RateLimiter.acquire)
    for _second in range(10):
        clock.advance(1000)
    wait_for(lambda: times_of(log).disk > 3000, "the wait is reported")
    assert times_of(log).limiter == 0
    store.failures = 0
    clock.advance(10_000)
    storing.result(timeout=30)


def test_slow_driver_is_a_wait_for_its_acknowledgement(
    supervise: Supervise,
    receiver: Noting,
    clock: ManualClock,
    log: EventLog,
    driver: FakeDriver,
    background: Background,
) -> None:
    supervise(receiver).start()
    asked, gate = threading.Event(), threading.Event()

    def answer(message: object) -> None:
        if isinstance(message, AddBlocks):
            asked.set()
            gate.wait(30)

    driver.on_message = answer

    def store() -> None:
        for record in "ab":
            receiver.store_all([record])

    storing = background(store)
    await_blocked(BlockPusher.push_and_await)
    assert asked.wait(30)
    clock.advance(3000)
    gate.set()
    storing.result(timeout=30)
    assert times_of(log) == StoreTimes(elapsed=3000, driver=3000, reporting=3000, code=times_of(log).code)
