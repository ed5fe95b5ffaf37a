"""A barrier that holds threads until the test opens it."""

from __future__ import annotations

import threading


class Gate:
    """A callable that blocks until ``open``; ``reached`` is set by the first caller.

    It accepts any arguments, so it can stand in for a job, an output function or a listener's callback.
    """

    def __init__(self, timeout_s: float = 30) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()
        self._timeout_s = timeout_s

    def open(self) -> None:
        """Let every caller pass, now and later."""
        self._opened.set()

    def __call__(self, *_arguments: object) -> None:
        self.reached.set()
        assert self._opened.wait(self._timeout_s), f"gate not opened within {self._timeout_s:g} s"
