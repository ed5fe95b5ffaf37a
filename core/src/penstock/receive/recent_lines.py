"""The last lines that a receiver's process wrote to standard error, without secrets, for its error events."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import attrs

from penstock.runtime.redaction import Redaction, secret_names

#: Lines in an error event, and characters in each.
MAX_LINES, MAX_CHARS = 20, 300
# A line is cut only after its secrets were replaced: half a secret would not be found.
_MAX_KEPT = 10 * MAX_CHARS


class RecentLines:
    """Standard error of a process. It keeps the last lines; ``redaction`` returns the redaction of their secrets."""

    def __init__(self, stream: TextIO, redaction: Callable[[], Redaction]) -> None:
        self._stream = stream
        self._redaction = redaction
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._unfinished = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Write to the stream, and keep the last lines."""
        with self._lock:
            *lines, unfinished = (self._unfinished + text).split("\n")
            self._lines.extend(line[:_MAX_KEPT] for line in lines)
            self._unfinished = unfinished[:_MAX_KEPT]
        return self._stream.write(text)

    def lines(self) -> list[str]:
        """The last lines, oldest first, without secrets."""
        with self._lock:
            lines = [*self._lines, self._unfinished][-MAX_LINES:]
        redaction = self._redaction()
        return [redaction.apply(line)[:MAX_CHARS] for line in lines if line.strip()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# The lines of this process while it runs a receiver; a Python worker of Spark runs only one.
_recent: RecentLines | None = None


@contextmanager
def recording(redaction: Callable[[], Redaction]) -> Iterator[None]:
    """Keep the last lines of standard error inside a ``with`` block."""
    global _recent
    was = sys.stderr
    sys.stderr = _recent = RecentLines(was, redaction)
    try:
        yield
    finally:
        _recent = None
        if isinstance(sys.stderr, RecentLines):
            sys.stderr = was


def recent_lines() -> list[str]:
    """The last lines of this process; none while it records none, or when a secret cannot be determined."""
    try:
        return [] if _recent is None else _recent.lines()
    # Reading attributes of the receiver may run its author's code.
    except Exception:
        return []


def redaction_of(receiver: object, conf: Mapping[str, str], *secrets: str) -> Redaction:
    """The redaction of a receiver's lines.

    Secrets are values whose names ``secret_names`` finds, in environment, configuration, attributes and options, also
    options with ``repr=False``, and the further ``secrets``.
    """
    names = secret_names(conf)
    named = [*os.environ.items(), *conf.items(), *vars(receiver).items()]
    values = [*secrets, *(value for name, value in named if names.search(name))]
    for options in vars(receiver).values():
        if attrs.has(type(options)):
            values += [
                getattr(options, option.name, "")
                for option in attrs.fields(type(options))
                if not option.repr or names.search(option.name)
            ]
    texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]
    return Redaction.of(names, (line for text in texts if isinstance(text, str) for line in text.splitlines()))
