"""``GlobalState``: a snapshot of the process's global state, which a plugin must not change."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

#: The function that reads a value, and the function that sets it.
Part = tuple[Callable[[], Any], Callable[[Any], object]]


class GlobalState:
    """A snapshot of the process's global state: reports changes and restores the previous values.

    Args:
        parts: values to watch beside the core's own, by name.
    """

    def __init__(self, parts: Mapping[str, Part] | None = None) -> None:
        self._parts = {**_PARTS, **(parts or {})}
        self._snapshot = {name: read() for name, (read, _write) in self._parts.items()}

    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The values that have changed since the snapshot, then and now, by name."""
        values = {name: (value, self._parts[name][0]()) for name, value in self._snapshot.items()}
        return {name: (value, now) for name, (value, now) in values.items() if value != now}

    def restore(self, *, keep_additions: bool = False) -> None:
        """Restore the snapshot. Signal handlers are restored on the main thread only, as Python requires.

        Args:
            keep_additions: keep new entries of ``sys.path``, at its end, and of ``os.environ``: a library that was
                imported meanwhile may need them.
        """
        for name, (value, now) in self.changed().items():
            if keep_additions and name == "os.environ":
                value = {**now, **value}
            elif keep_additions and name == "sys.path":
                value = value + [entry for entry in now if entry not in value]
            with suppress(OSError):  # the working directory may have been deleted
                self._parts[name][1](value)


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "(deleted)"


def _set_environment(values: dict[str, str]) -> None:
    for name in os.environ.keys() - values.keys():
        del os.environ[name]
    os.environ.update(values)


def _set_handler(number: signal.Signals, handler: Any) -> None:
    # None stands for a handler that was set outside Python, which cannot set it again.
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


def _attribute(owner: Any, name: str) -> Part:
    return partial(getattr, owner, name), partial(setattr, owner, name)


def _list(entries: list[Any]) -> Part:
    return partial(list, entries), partial(entries.__setitem__, slice(None))


_PARTS: dict[str, Part] = {
    "the working directory": (_working_directory, os.chdir),
    "os.environ": (lambda: dict(os.environ), _set_environment),
    "the default socket timeout": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    **{
        f"the handler of {number.name}": (partial(signal.getsignal, number), partial(_set_handler, number))
        for number in sorted(signal.Signals)
    },
    "sys.excepthook": _attribute(sys, "excepthook"),
    "threading.excepthook": _attribute(threading, "excepthook"),
    "sys.stdout": _attribute(sys, "stdout"),
    "sys.stderr": _attribute(sys, "stderr"),
    "sys.path": (lambda: list(sys.path), lambda value: sys.path.__setitem__(slice(None), value)),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the handlers of the root logger": _list(logging.root.handlers),
    "the filters of the root logger": _list(logging.root.filters),
    "the level of the root logger": (lambda: logging.root.level, logging.root.setLevel),
    "logging.disable": _attribute(logging.root.manager, "disable"),
}
