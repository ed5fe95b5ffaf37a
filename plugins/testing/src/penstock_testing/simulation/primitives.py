"""Twins of ``threading``, ``queue``, ``time``, ``random``, ``secrets`` and futures that run on a ``Scheduler``."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from random import Random as _Random
from typing import Any

from penstock_testing.simulation.scheduler import Scheduler, Task


class SimulatedLock:
    """As ``threading.Lock``; reentrant if asked for."""

    def __init__(self, scheduler: Scheduler, *, is_reentrant: bool = False) -> None:
        self._scheduler = scheduler
        self._is_reentrant = is_reentrant
        # The thread that holds it, how often; no thread for code outside of simulated threads.
        self._owner: Task | None = None
        self._count = 0
        self._waiters: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._scheduler.pause()
        if self._count and not (self._is_reentrant and self.is_owned()):
            deadline = None if timeout < 0 else self._scheduler.now_s + timeout
            while self._count:
                if not blocking:
                    return False
                left = None if deadline is None else deadline - self._scheduler.now_s
                if left is not None and left <= 0:
                    return False
                self._scheduler.wait(self._waiters, left)
        self._owner = self._scheduler.current
        self._count += 1
        return True

    def release(self) -> None:
        if not self._count:
            raise RuntimeError("release unlocked lock")
        self._count -= 1
        if not self._count and self._waiters:
            self._scheduler.wake(self._waiters[0])

    def locked(self) -> bool:
        return self._count > 0

    def is_owned(self) -> bool:
        return self._count > 0 and self._owner is self._scheduler.current

    def release_all(self) -> int:
        """Release a reentrant lock wholly; return how often it was held."""
        count, self._count = self._count, 1
        self.release()
        return count

    def acquire_again(self, count: int) -> None:
        self.acquire()
        self._count = count

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_error: object) -> None:
        # A killed thread may have lost the lock while it waited.
        if self._count:
            self.release()


class SimulatedCondition:
    """As ``threading.Condition``."""

    def __init__(self, scheduler: Scheduler, lock: SimulatedLock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or SimulatedLock(scheduler, is_reentrant=True)
        self._waiters: list[Task] = []
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.__exit__()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._lock.is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        count = self._lock.release_all()
        was_woken = self._scheduler.wait(self._waiters, timeout)
        self._lock.acquire_again(count)
        return was_woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        deadline = None if timeout is None else self._scheduler.now_s + timeout
        while not (result := predicate()):
            left = None if deadline is None else deadline - self._scheduler.now_s
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        for task in self._waiters[:n]:
            self._scheduler.wake(task)

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class SimulatedEvent:
    """As ``threading.Event``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._scheduler.pause()
        self._is_set = True
        for task in list(self._waiters):
            self._scheduler.wake(task)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        self._scheduler.pause()
        if not self._is_set and (timeout is None or timeout > 0):
            self._scheduler.wait(self._waiters, timeout)
        return self._is_set


class SimulatedQueue:
    """As ``queue.Queue`` and ``queue.SimpleQueue``."""

    def __init__(self, scheduler: Scheduler, maxsize: int = 0) -> None:
        self._scheduler = scheduler
        self.maxsize = maxsize
        self.queue: deque[Any] = deque()
        self._changed = SimulatedCondition(scheduler)

    def qsize(self) -> int:
        return len(self.queue)

    def empty(self) -> bool:
        return not self.queue

    def full(self) -> bool:
        return 0 < self.maxsize <= len(self.queue)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: not self.full(), timeout if block else 0):
                raise queue.Full
            self.queue.append(item)
            self._changed.notify_all()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        with self._changed:
            if not self._changed.wait_for(lambda: self.queue, timeout if block else 0):
                raise queue.Empty
            item = self.queue.popleft()
            self._changed.notify_all()
            return item

    def put_nowait(self, item: Any) -> None:
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        return self.get(block=False)


class Twins:
    """The twins of one simulation, as objects that stand in for the modules and classes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

        def start_thread(thread: threading.Thread) -> None:
            task = scheduler.check()
            assert task is not None, "only simulated threads start threads"
            scheduler.adopt(task.process, thread)
            scheduler.pause()

        def join_thread(thread: threading.Thread, timeout: float | None = None) -> None:
            task = scheduler.task_of(thread)
            if task is not None:
                scheduler.join(task, timeout)

        def is_thread_alive(thread: threading.Thread) -> bool:
            return scheduler.task_of(thread) is not None

        class SimulatedFuture(Future[Any]):
            def __init__(self) -> None:
                super().__init__()
                self._condition: Any = SimulatedCondition(scheduler)

        class SimulatedThread(threading.Thread):
            def start(self) -> None:
                start_thread(self)

            def join(self, timeout: float | None = None) -> None:
                join_thread(self, timeout)

            def is_alive(self) -> bool:
                return is_thread_alive(self)

        class Threading:
            current_thread = staticmethod(threading.current_thread)
            main_thread = staticmethod(threading.main_thread)
            get_ident = staticmethod(threading.get_ident)
            local = threading.local
            Thread = SimulatedThread
            excepthook = staticmethod(threading.excepthook)
            __excepthook__ = staticmethod(threading.__excepthook__)

            @staticmethod
            def Lock() -> SimulatedLock:
                return SimulatedLock(scheduler)

            @staticmethod
            def RLock() -> SimulatedLock:
                return SimulatedLock(scheduler, is_reentrant=True)

            @staticmethod
            def Condition(lock: SimulatedLock | None = None) -> SimulatedCondition:
                return SimulatedCondition(scheduler, lock)

            @staticmethod
            def Event() -> SimulatedEvent:
                return SimulatedEvent(scheduler)

            @staticmethod
            def enumerate() -> list[threading.Thread]:
                task = scheduler.current
                tasks = task.process.tasks if task is not None else []
                return [each.thread for each in tasks if not each.is_done]

        class Queues:
            Empty = queue.Empty
            Full = queue.Full

            @staticmethod
            def Queue(maxsize: int = 0) -> SimulatedQueue:
                return SimulatedQueue(scheduler, maxsize)

            @staticmethod
            def SimpleQueue() -> SimulatedQueue:
                return SimulatedQueue(scheduler)

        class Time:
            CLOCK_MONOTONIC = time.CLOCK_MONOTONIC

            @staticmethod
            def monotonic() -> float:
                return scheduler.now_ns / 1e9

            perf_counter = monotonic

            @staticmethod
            def monotonic_ns() -> int:
                return scheduler.now_ns

            @staticmethod
            def clock_gettime_ns(_clock: int) -> int:
                return scheduler.now_ns

            @staticmethod
            def time_ns() -> int:
                return scheduler.now_ns + scheduler.wall_ns

            @staticmethod
            def time() -> float:
                return (scheduler.now_ns + scheduler.wall_ns) / 1e9

            @staticmethod
            def sleep(seconds: float) -> None:
                scheduler.elapse(seconds)

        class Randoms:
            uniform = staticmethod(scheduler.random.uniform)
            random = staticmethod(scheduler.random.random)

            @staticmethod
            def Random(seed: str | float | None = None) -> _Random:
                return _Random(scheduler.random.random() if seed is None else seed)

        class Secrets:
            @staticmethod
            def token_hex(count: int = 32) -> str:
                return scheduler.random.randbytes(count).hex()

            @staticmethod
            def token_urlsafe(count: int = 32) -> str:
                return scheduler.random.randbytes(count).hex()

        self.threading = Threading
        self.queue = Queues
        self.time = Time
        self.random = Randoms
        self.secrets = Secrets
        self.future = SimulatedFuture
        #: Methods that a class of threads gets.
        self.thread_methods: dict[str, Any] = {"start": start_thread, "join": join_thread, "is_alive": is_thread_alive}
