"""``GlobalState``: a snapshot of the process's global state, which a plugin must not change."""

from __future__ import annotations

import locale
import logging
import os
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any


class GlobalState:
    """A snapshot of the process's global state: reports changes and restores the previous values."""

    def __init__(self) -> None:
        self._snapshot = {name: read() for name, (read, _write) in _PARTS.items()}

    def changed(self) -> list[str]:
        """The names of the values that have changed since the snapshot."""
        return [name for name, value in self._snapshot.items() if _PARTS[name][0]() != value]

    def changes(self) -> list[str]:
        """One line per change since the snapshot."""
        lines = []
        for name in self.changed():
            value, now = self._snapshot[name], _PARTS[name][0]()
            if name == "os.environ":  # its values may be secrets
                keys = {key for key, _ in value.items() ^ now.items()}
                lines.append(f"os.environ changed: {', '.join(sorted(keys))}")
            else:
                lines.append(f"{name} changed from {value!r} to {now!r}")
        return lines

    def restore(self, *, keep_additions: bool = False) -> None:
        """Restore the snapshot. Signal handlers are restored on the main thread only, as Python requires.

        Args:
            keep_additions: keep new entries of ``sys.path``, at its end, and of ``os.environ``: a library that was
                imported meanwhile may need them.
        """
        for name in self.changed():
            value, now = self._snapshot[name], _PARTS[name][0]()
            if keep_additions and name == "os.environ":
                value = {**now, **value}
            elif keep_additions and name == "sys.path":
                value = value + [entry for entry in now if entry not in value]
            with suppress(OSError):  # the working directory may have been deleted
                _PARTS[name][1](value)


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "(deleted)"


def _set_environment(values: dict[str, str]) -> None:
    for name in os.environ.keys() - values.keys():
        del os.environ[name]
    os.environ.update(values)


def _umask() -> str:
    # Only /proc says it without changing it; empty elsewhere.
    status = Path("/proc/self/status")
    match = re.search(r"^Umask:\s*(\d+)", status.read_text() if status.exists() else "", re.MULTILINE)
    return match[1] if match else ""


def _general_filters() -> list[Any]:
    return [entry for entry in warnings.filters if _is_general(entry)]


def _is_general(warning_filter: Any) -> bool:
    """Whether a filter is for the warnings of every module: libraries add filters for their own ones."""
    _, message, category, module, _ = warning_filter
    return message is None and module is None and category.__module__ == "builtins"


def _set_general_filters(general: list[Any]) -> None:
    # The general ones come last: a library's own filters are for its own warnings.
    filters = [*(entry for entry in warnings.filters if not _is_general(entry)), *general]
    warnings.resetwarnings()
    warnings.filters[:] = filters  # type: ignore[index]  # a list, typed as a sequence


def _set_handler(number: signal.Signals, handler: Any) -> None:
    # None stands for a handler that was set outside Python, which cannot set it again.
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


# The function that reads a value, and the function that sets it.
_Part = tuple[Callable[[], Any], Callable[[Any], object]]


def _attribute(owner: Any, name: str) -> _Part:
    return partial(getattr, owner, name), partial(setattr, owner, name)


def _list(entries: list[Any]) -> _Part:
    return partial(list, entries), partial(entries.__setitem__, slice(None))


_PARTS: dict[str, _Part] = {
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
    "the umask": (_umask, lambda digits: os.umask(int(digits, 8)) if digits else None),
    "the locale": (partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
    "the filters of all warnings": (_general_filters, _set_general_filters),
}
