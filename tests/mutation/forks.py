"""Runs tasks in forks of this process, several at a time, and reads the messages that each sends."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from attrs import define, field

T = TypeVar("T")
#: Sends a message, which JSON must be able to express, to the parent.
Send = Callable[[Any], None]
_fork = multiprocessing.get_context("fork")
_END = "end"


@define
class _Fork(Generic[T]):
    task: T
    process: BaseProcess
    deadline_s: float
    messages: list[Any] = field(factory=list)

    def end(self) -> None:
        """Kill the process with its children, and the threads that a mutant left behind."""
        self.process.kill()
        # Its session does not exist yet if it has just started.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()


def in_forks(
    tasks: Iterable[T], run: Callable[[T, Send], None], limit_s: Callable[[Any], float], jobs: int
) -> Iterator[tuple[T, list[Any], bool]]:
    """Run tasks, at most ``jobs`` at a time; yield each when it ends with its messages and whether it ended in time.

    ``limit_s`` gives the seconds within which the next message must follow a message; ``None`` stands for the start.
    """
    waiting, running = iter(tasks), dict[Connection, _Fork[T]]()
    try:
        while True:
            while len(running) < jobs:
                try:
                    task = next(waiting)
                except StopIteration:
                    break
                receiving, process = _start(run, task)
                running[receiving] = _Fork(task, process, time.monotonic() + limit_s(None))
            if not running:
                return
            first_s = min(fork.deadline_s for fork in running.values())
            ready = wait(list(running), max(first_s - time.monotonic(), 0))
            for receiving, fork in list(running.items()):
                ended, in_time = False, True
                if receiving in ready:
                    message = _message(receiving)
                    ended = message == _END
                    if not ended:
                        fork.messages.append(message)
                        fork.deadline_s = time.monotonic() + limit_s(message)
                elif time.monotonic() > fork.deadline_s:
                    ended, in_time = True, False
                if ended:
                    del running[receiving]
                    receiving.close()
                    fork.end()
                    yield fork.task, fork.messages, in_time
    finally:
        for fork in running.values():
            fork.end()


def _start(run: Callable[[T, Send], None], task: T) -> tuple[Connection, BaseProcess]:
    receiving, sending = _fork.Pipe(duplex=False)

    def send(message: Any) -> None:
        sending.send_bytes(json.dumps(message).encode())

    def child() -> None:
        os.setsid()
        run(task, send)
        send(_END)
        # Threads that a mutant left behind would keep the process alive.
        os._exit(0)

    process = _fork.Process(target=child)
    process.start()
    sending.close()
    return receiving, process


def _message(receiving: Connection) -> Any:
    try:
        return json.loads(receiving.recv_bytes())
    except EOFError:
        return _END
