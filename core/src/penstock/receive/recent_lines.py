"""The last lines that a receiver's process wrote to standard error, without secrets, for its error events."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import attrs

#: Lines in an error event, and characters in each.
MAX_LINES, MAX_CHARS = 20, 300
# A line is cut only after its secrets were replaced: half a secret would not be found.
_MAX_KEPT = 10 * MAX_CHARS
_HIDDEN = "***"
_NAME = r"(?:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access|private|account)[-._]?key)"
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s,;&)\]}]+)"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_PATTERNS = (
    (re.compile(r"(://)[^/\s@]+@"), rf"\1{_HIDDEN}@"),
    (re.compile(r"(Bearer\s+|Authorization\W+\w+\s+)[^\s'\"]+", re.IGNORECASE), rf"\1{_HIDDEN}"),
    (re.compile(rf"({_NAME}[\w.-]*['\"]?\s*[=:]\s*){_VALUE}", re.IGNORECASE), rf"\1{_HIDDEN}"),
)
# Shorter ones are parts of ordinary words.
_MIN_SECRET = 4


class RecentLines:
    """Standard error of a process, whose last lines are kept. ``secrets`` returns the texts to replace in ``lines``."""

    def __init__(self, stream: TextIO, secrets: Callable[[], Iterable[str]]) -> None:
        self._stream = stream
        self._secrets = secrets
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
        secrets = sorted({secret for secret in self._secrets() if len(secret) >= _MIN_SECRET}, key=len, reverse=True)
        return [redacted(line, secrets)[:MAX_CHARS] for line in lines if line.strip()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# The lines of this process while it runs a receiver; a Python worker of Spark runs only one.
_recent: RecentLines | None = None


@contextmanager
def recording(secrets: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Keep the last lines of standard error inside a ``with`` block."""
    global _recent
    was = sys.stderr
    sys.stderr = _recent = RecentLines(was, secrets)
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
    # Attributes of the receiver are read, which are the author's code.
    except Exception:
        return []


def redacted(line: str, secrets: Iterable[str]) -> str:
    """A line without the given texts, without passwords in URLs, and without values of names such as ``password``."""
    for secret in secrets:
        line = line.replace(secret, _HIDDEN)
    for pattern, replacement in _PATTERNS:
        line = pattern.sub(replacement, line)
    return line


def secrets_of(receiver: object, configuration: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The lines of the secrets that must not be in a receiver's lines: values with names such as ``password``.

    They come from environment, configuration, attributes and options; options with ``repr=False`` are secret, too.
    """
    named = [*os.environ.items(), *configuration, *vars(receiver).items()]
    values = [value for name, value in named if _SECRET_NAME.search(name)]
    for options in vars(receiver).values():
        if attrs.has(type(options)):
            values += [
                getattr(options, option.name, "")
                for option in attrs.fields(type(options))
                if not option.repr or _SECRET_NAME.search(option.name)
            ]
    for value in values:
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, str):
            yield from value.splitlines()
