"""``GlobalState``: a snapshot of the process's global state, which a plugin under test must not change."""

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

#: The function that reads a value, and the function that sets it.
Part = tuple[Callable[[], Any], Callable[[Any], object]]


class GlobalState:
    """A snapshot of the process's global state: reports changes and restores the previous values."""

    def __init__(self) -> None:
        self._snapshot = {name: read() for name, (read, _write) in _PARTS.items()}

    def changes(self) -> list[str]:
        """One line per value that has changed since the snapshot."""
        lines = []
        for name, (value, now) in self._changed().items():
            if name == "os.environ":  # its values may be secrets
                keys = {key for key, _ in value.items() ^ now.items()}
                lines.append(f"os.environ changed: {', '.join(sorted(keys))}")
            else:
                lines.append(f"{name} changed from {value!r} to {now!r}")
        return lines

    def restore(self) -> None:
        """Restore the snapshot. Signal handlers are restored on the main thread only, as Python requires."""
        for name, (value, _now) in self._changed().items():
            with suppress(OSError):  # the working directory may have been deleted
                _PARTS[name][1](value)

    def _changed(self) -> dict[str, tuple[Any, Any]]:
        values = {name: (value, _PARTS[name][0]()) for name, value in self._snapshot.items()}
        return {name: (value, now) for name, (value, now) in values.items() if value != now}


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


def _umask() -> str:
    # Only /proc says it without changing it; empty elsewhere.
    status = Path("/proc/self/status")
    match = re.search(r"^Umask:\s*(\d+)", status.read_text() if status.exists() else "", re.MULTILINE)
    return match[1] if match else ""


def _set_umask(digits: str) -> None:
    if digits:
        os.umask(int(digits, 8))


_locale = partial(locale.setlocale, locale.LC_ALL)


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
    "the umask": (_umask, _set_umask),
    "the locale": (_locale, _locale),
    "the filters of all warnings": (_general_filters, _set_general_filters),
}
