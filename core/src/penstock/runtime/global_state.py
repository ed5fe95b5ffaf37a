"""``GlobalState``: a snapshot of the process's global state, which a plugin must not change."""

from __future__ import annotations

import contextlib
import locale
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import Any


class GlobalState:
    """A snapshot of the process's global state: finds changes and restores what was there."""

    def __init__(self) -> None:
        self._was = _read()

    def changed(self) -> list[str]:
        """The names of what has changed since the snapshot."""
        now = _read()
        return [name for name, was in self._was.items() if now[name] != was]

    def changes(self) -> list[str]:
        """The changes since the snapshot, one line each."""
        now = _read()
        return [
            f"{name} changed from {was!r} to {now[name]!r}"
            if name != "os.environ"
            # Its values may be secrets.
            else f"os.environ changed: {', '.join(sorted({key for key, _ in was.items() ^ now[name].items()}))}"
            for name, was in self._was.items()
            if now[name] != was
        ]

    def restore(self, *, keep_additions: bool = False) -> None:
        """Restore the snapshot. Signal handlers are restored on the main thread only, as Python requires.

        Args:
            keep_additions: keep what was added to ``sys.path``, at its end, and to ``os.environ``: a library that was
                imported meanwhile may need it.
        """
        was = self._was
        with contextlib.suppress(OSError):  # it was deleted
            os.chdir(was[_FOLDER])
        for name in set() if keep_additions else set(os.environ) - set(was["os.environ"]):
            del os.environ[name]
        os.environ.update(was["os.environ"])
        socket.setdefaulttimeout(was["the default socket timeout"])
        sys.excepthook, threading.excepthook = was["sys.excepthook"], was["threading.excepthook"]
        sys.stdout, sys.stderr = was["sys.stdout"], was["sys.stderr"]
        sys.setrecursionlimit(was["the recursion limit"])
        added = [each for each in sys.path if each not in was["sys.path"]] if keep_additions else []
        sys.path[:] = was["sys.path"] + added
        logging.root.handlers[:], logging.root.filters[:] = was[_HANDLERS], was[_FILTERS]
        logging.root.setLevel(was[_LEVEL])
        logging.disable(was["logging.disable"])
        if was[_UMASK]:
            os.umask(int(was[_UMASK], 8))
        locale.setlocale(locale.LC_ALL, was[_LOCALE])
        if _general_filters() != was[_WARNINGS]:
            kept = [each for each in warnings.filters if not _is_general(each)]
            warnings.resetwarnings()
            # The general ones last: a library's own filters are for its own warnings.
            warnings.filters[:] = [*kept, *was[_WARNINGS]]  # type: ignore[index]  # a list, typed as a sequence
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = was[f"the handler of {number.name}"]
                # None: it was not set by Python, which cannot set it again.
                if handler is not None and signal.getsignal(number) != handler:
                    signal.signal(number, handler)


_SIGNALS = sorted(signal.Signals)
_FOLDER = "the working directory"
_UMASK, _LOCALE, _WARNINGS = "the umask", "the locale", "the filters of all warnings"
_HANDLERS, _FILTERS, _LEVEL = (f"the {what} of the root logger" for what in ("handlers", "filters", "level"))


def _read() -> dict[str, Any]:
    try:
        folder = str(Path.cwd())
    except FileNotFoundError:  # it was deleted
        folder = "(deleted)"
    return {
        _FOLDER: folder,
        "os.environ": dict(os.environ),
        "the default socket timeout": socket.getdefaulttimeout(),
        **{f"the handler of {number.name}": signal.getsignal(number) for number in _SIGNALS},
        "sys.excepthook": sys.excepthook,
        "threading.excepthook": threading.excepthook,
        "sys.stdout": sys.stdout,
        "sys.stderr": sys.stderr,
        "sys.path": list(sys.path),
        "the recursion limit": sys.getrecursionlimit(),
        _HANDLERS: list(logging.root.handlers),
        _FILTERS: list(logging.root.filters),
        _LEVEL: logging.root.level,
        "logging.disable": logging.root.manager.disable,
        _UMASK: _umask(),
        _LOCALE: locale.setlocale(locale.LC_ALL),
        _WARNINGS: _general_filters(),
    }


def _umask() -> str:
    """The umask in octal digits; empty where /proc does not say: to read it otherwise is to change it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return line.split()[1]
    return ""


def _general_filters() -> list[Any]:
    return [each for each in warnings.filters if _is_general(each)]


def _is_general(warning_filter: Any) -> bool:
    """Whether a filter is for the warnings of every module: libraries add filters for their own ones."""
    _, message, category, module, _ = warning_filter
    return message is None and module is None and category.__module__ == "builtins"
