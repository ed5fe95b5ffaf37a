"""``Scheduler``: runs the threads of simulated processes one at a time, in an order that a seed decides.

Each simulated thread is a real thread that runs only while it holds the baton. It passes the baton on where it takes a
lock, waits, sleeps, or uses a simulated device; who gets it next is drawn from the seed. Virtual time advances a little
at each of these points, and to the next timer when every thread waits. The same seed gives the same history.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

# The real ones: while a simulation runs, the engine's modules use twins of them.
_Thread, _Lock = threading.Thread, threading.Lock
_start, _join = threading.Thread.start, threading.Thread.join

_SECOND = 1_000_000_000
# The longest virtual time that a thread runs between two points at which the baton may pass.
_STEP_NS = 40_000
# Real seconds without progress after which the simulation is given up: a thread blocks outside of the simulation.
_STUCK_S = 60.0


class ProcessKilled(BaseException):
    """Unwinds the threads of a killed process. None of their actions has an effect any more."""


class SimulationError(AssertionError):
    """The simulation cannot continue: a deadlock, too many steps, or a thread that blocks outside of it."""


class SimulatedProcess:
    """A process: its threads, and the values of globals that belong to it."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        #: The name of the executor whose files it shares; empty for a process that is none of its workers.
        self.executor = ""
        self.tasks: list[Task] = []
        self.is_dead = False
        #: Called when the process has been killed, or its first thread has ended.
        self.on_end: list[Callable[[], object]] = []
        #: The process's values of swapped globals; see ``Scheduler.own``.
        self.values: dict[int, Any] = {}

    def spawn(self, name: str, run: Callable[[], object]) -> Task:
        """Start a thread."""
        return self.scheduler.spawn(self, name, run)

    def __repr__(self) -> str:
        return f"<process {self.name}>"


class Task:
    """One thread of a simulated process."""

    def __init__(self, process: SimulatedProcess, thread: threading.Thread) -> None:
        self.process = process
        self.thread = thread
        self.name = thread.name
        self.baton = _Lock()
        self.baton.acquire()
        self.is_done = False
        # While it waits: the list of waiters that it is in, and the number of the wait, which outdates older timers.
        self.waiters: list[Task] | None = None
        self.wait_number = 0
        self.is_waiting = False
        self.was_woken = False
        self.is_unwinding = False
        #: Threads that wait for the end of this one.
        self.joining: list[Task] = []


class Scheduler:
    """Decides which thread runs, and what time it is.

    Args:
        seed: decides everything that is left to chance.
        max_steps: give up after this number of decisions.
    """

    def __init__(self, seed: int, *, max_steps: int = 5_000_000) -> None:
        self.random = Random(seed)
        #: Virtual time since the start in ns.
        self.now_ns = 0
        #: Added to it: the wall clock. A simulation may change it.
        self.wall_ns = 1_700_000_000 * _SECOND
        self.steps = 0
        #: The lines of the history so far.
        self.trace: list[str] = []
        self.processes: list[SimulatedProcess] = []
        #: The running thread; ``None`` in one that is not simulated. At most one thread runs at any time.
        self.current: Task | None = None
        self._max_steps = max_steps
        #: The probability that the baton passes at a point where the running thread could continue.
        self.preemption = 0.1
        self._ready: list[Task] = []
        self._suspended: set[SimulatedProcess] = set()
        self._timers: list[tuple[int, int, Task, int]] = []
        self._order = itertools.count()
        self._finished = threading.Event()
        self._failure: BaseException | None = None
        self._unwound = threading.Semaphore(0)
        self._by_thread: dict[threading.Thread, Task] = {}
        self._threads: list[threading.Thread] = []
        self._owned: list[tuple[Any, str, Any]] = []

    # -- who runs --

    @property
    def now_s(self) -> float:
        """Virtual time since the start in seconds."""
        return self.now_ns / _SECOND

    def process(self, name: str) -> SimulatedProcess:
        """A new process without threads."""
        made = SimulatedProcess(self, name)
        self.processes.append(made)
        return made

    def own(self, holder: Any, name: str, initial: Any) -> None:
        """Give each process its own value of a global, the attribute ``name`` of a module or class."""
        self._owned.append((holder, name, initial))

    def run(self, main: Callable[[], object]) -> None:
        """Run a function as the first thread of a process ``simulation``; kill what still runs when it returns.

        Raises:
            SimulationError: see there.
            BaseException: the function's error.
        """
        root = self.spawn(self.process("simulation"), "main", main)
        root.process.on_end.append(self._finished.set)
        self._pass_on(None)
        seen = -1
        while not self._finished.wait(_STUCK_S):
            if self.steps == seen:
                self._fail(SimulationError(f"a thread blocks outside of the simulation:\n{self._stack()}"))
            seen = self.steps
        self.current = None
        # The end of one process may start another.
        while self.processes:
            self.kill(self.processes[0])
        # Ended threads take no more steps, but need a moment to exit.
        for thread in self._threads:
            _join(thread, _STUCK_S)
        if self._failure is not None:
            raise self._failure

    def spawn(self, process: SimulatedProcess, name: str, run: Callable[[], object]) -> Task:
        """Start a thread of a process."""
        return self.adopt(process, _Thread(target=run, name=name, daemon=True))

    def adopt(self, process: SimulatedProcess, thread: threading.Thread) -> Task:
        """Start a thread object as a thread of a process."""
        task = Task(process, thread)
        run = thread.run

        def carry() -> None:
            task.baton.acquire()
            try:
                if not process.is_dead:
                    run()
            except ProcessKilled:
                pass
            except BaseException as error:
                self._crashed(task, error)
            finally:
                self._end(task)

        thread.run = carry  # type: ignore[method-assign]
        self._by_thread[thread] = task
        process.tasks.append(task)
        self._ready.append(task)
        self._threads.append(thread)
        _start(thread)
        return task

    def task_of(self, thread: threading.Thread) -> Task | None:
        """The simulated thread of a thread object that has started and not ended."""
        return self._by_thread.get(thread)

    def check(self) -> Task | None:
        """The running thread; raises ``ProcessKilled`` on one of a dead process."""
        task = self.current
        if task is not None and task.process.is_dead:
            raise ProcessKilled
        return task

    def pause(self) -> None:
        """Perhaps let another thread run."""
        task = self.current
        if task is None:
            return
        if task.process.is_dead:
            raise ProcessKilled
        if self.random.random() < self.preemption:
            self._ready.append(task)
            self._switch(task)

    def yield_now(self) -> None:
        """Let another thread run, chosen by the seed; it may be this one."""
        task = self.check()
        if task is not None:
            self._ready.append(task)
            self._switch(task)

    def elapse(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.wait([], max(seconds, 0.0))

    def wait(self, waiters: list[Task], timeout_s: float | None = None) -> bool:
        """Wait in a list until ``wake``, at most ``timeout_s``; return whether it was ``wake`` that ended the wait."""
        task = self.check()
        if task is None:
            raise SimulationError(f"{threading.current_thread().name} waits, which is no thread of the simulation")
        task.wait_number += 1
        task.is_waiting = True
        task.was_woken = False
        task.waiters = waiters
        waiters.append(task)
        if timeout_s is not None:
            due_ns = self.now_ns + max(int(timeout_s * _SECOND), 0)
            heapq.heappush(self._timers, (due_ns, next(self._order), task, task.wait_number))
        self._switch(task)
        return task.was_woken

    def wake(self, task: Task) -> None:
        """End the wait of a thread."""
        self._stop_waiting(task)
        task.was_woken = True
        self._ready.append(task)

    def join(self, task: Task, timeout_s: float | None = None) -> None:
        """Wait for the end of a thread."""
        if not task.is_done:
            self.wait(task.joining, timeout_s)

    # -- processes --

    def kill(self, process: SimulatedProcess) -> None:
        """End a process at once, as SIGKILL does. Its threads unwind without any effect."""
        if process.is_dead:
            return
        process.is_dead = True
        running = self.current
        for task in list(process.tasks):
            if task is not running and not task.is_done:
                self._unwind(task)
        self._ended(process)
        if running is not None and running.process is process:
            raise ProcessKilled

    def suspend(self, process: SimulatedProcess) -> None:
        """Stop a process, as SIGSTOP does."""
        self._suspended.add(process)

    def resume(self, process: SimulatedProcess) -> None:
        """Continue a suspended process."""
        self._suspended.discard(process)

    # -- history --

    def note(self, text: str) -> None:
        """Add a line to the history: time, process, thread, and a text without anything that differs between runs."""
        task = self.current
        where = "" if task is None else f"{task.process.name} | {task.name}"
        self.trace.append(f"{self.now_ns / 1e6:12.3f} ms | {where} | {text}")

    # -- inside --

    def _switch(self, task: Task) -> None:
        """Pass the baton on and wait until it comes back."""
        if self._pass_on(task) is not task:
            task.baton.acquire()
        if task.process.is_dead:
            raise ProcessKilled

    def _pass_on(self, running: Task | None) -> Task | None:
        try:
            task = self._next()
        except BaseException as error:
            self._fail(error)
            return None
        before = running.process if running is not None else None
        if task.process is not before:
            self._swap(before, task.process)
        self.current = task
        if task is not running:
            task.baton.release()
        return task

    def _next(self) -> Task:
        if self._failure is not None:
            raise self._failure
        self.steps += 1
        if self.steps > self._max_steps:
            raise SimulationError(f"no end after {self._max_steps} steps, {self.now_s:.1f} s of virtual time")
        self.now_ns += self.random.randrange(_STEP_NS)
        while True:
            while self._timers and self._timers[0][0] <= self.now_ns:
                _due, _order, task, number = heapq.heappop(self._timers)
                if task.is_waiting and task.wait_number == number:
                    self._stop_waiting(task)
                    self._ready.append(task)
            if ready := self._runnable():
                return self._ready.pop(ready[self.random.randrange(len(ready))] if len(ready) > 1 else ready[0])
            if not self._timers:
                raise SimulationError(f"every thread waits for ever:\n{self._waits()}")
            self.now_ns = max(self.now_ns, self._timers[0][0])

    def _runnable(self) -> Sequence[int]:
        """The positions in ``_ready`` of threads whose process is not suspended."""
        if not self._suspended:
            return range(len(self._ready))
        return [number for number, task in enumerate(self._ready) if task.process not in self._suspended]

    def _stop_waiting(self, task: Task) -> None:
        task.is_waiting = False
        if task.waiters is not None and task in task.waiters:
            task.waiters.remove(task)
        task.waiters = None

    def _end(self, task: Task) -> None:
        task.is_done = True
        self._by_thread.pop(task.thread, None)
        if task.is_unwinding:
            self._unwound.release()
            return
        self.current = None
        for joining in list(task.joining):
            self.wake(joining)
        process = task.process
        if process.tasks[0] is task and not process.is_dead:
            # The end of a process ends its daemon threads.
            process.is_dead = True
            for other in list(process.tasks):
                if not other.is_done:
                    self._unwind(other)
            self._ended(process)
        if not self._finished.is_set():
            self._pass_on(None if process.is_dead else task)

    def _unwind(self, task: Task) -> None:
        self._stop_waiting(task)
        if task in self._ready:
            self._ready.remove(task)
        task.wait_number += 1
        task.is_unwinding = True
        running, self.current = self.current, task
        task.baton.release()
        if not self._unwound.acquire(timeout=_STUCK_S):
            raise SimulationError(f"the killed thread {task.name} does not end:\n{self._stack(task)}")
        self.current = running

    def _ended(self, process: SimulatedProcess) -> None:
        self.processes.remove(process)
        self._suspended.discard(process)
        for task in process.tasks:
            for joining in list(task.joining):
                if joining.process is not process:
                    self.wake(joining)
        for call in process.on_end:
            call()

    def _swap(self, before: SimulatedProcess | None, after: SimulatedProcess) -> None:
        for number, (holder, name, initial) in enumerate(self._owned):
            if before is not None:
                before.values[number] = getattr(holder, name)
            setattr(holder, name, after.values.get(number, initial))

    def _crashed(self, task: Task, error: BaseException) -> None:
        if task.process.is_dead:
            return
        self.note(f"thread failed: {type(error).__name__}: {error}")
        text = "".join(traceback.format_exception(error))
        self._failure = self._failure or (
            error
            if task.process.name == "simulation"
            else SimulationError(f"{task.name} of {task.process.name}:\n{text}")
        )

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._finished.set()

    def _waits(self) -> str:
        return "\n".join(
            f"{task.process.name} | {task.name}\n{self._stack(task)}"
            for process in self.processes
            for task in process.tasks
            if not task.is_done
        )

    def _stack(self, task: Task | None = None) -> str:
        task = task or self.current
        frame = None if task is None else sys._current_frames().get(task.thread.ident or 0)
        return "".join(traceback.format_stack(frame)[-12:]) if frame is not None else ""
