"""``Printed``: what is printed in this process, for checks that a plugin prints nothing.

Standard output and standard error belong to the program. A plugin logs, which is no printing, wherever a handler writes
the lines; nor are the warnings of Python's ``warnings`` and errors that Python reports by ``sys.unraisablehook``.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from typing import Any, Self

# Characters that a failure shows.
_SHOWN = 100
_STDOUT = 1
# Modules that write to standard error for somebody who does not print.
_NOT_PRINTING = ("logging", "warnings")


class Printed:
    """Sees what is printed to ``sys.stdout``, to ``sys.stderr`` and to file descriptor 1 while it is entered.

    Everything is passed on: text at once, bytes that are written to the descriptor itself when it is left. Child
    processes inherit the descriptor, so what they print counts, too.
    """

    def __init__(self) -> None:
        self._texts: list[tuple[str, str]] = []
        self._descriptor = _Descriptor()
        self._unraisable = threading.local()

    def __enter__(self) -> Self:
        """Start."""
        self._was: tuple[Any, Any, Any] = sys.stdout, sys.stderr, sys.unraisablehook
        stdout, stderr, on_unraisable = self._was
        self._descriptor.redirect(stdout)
        self._streams = _Stream("sys.stdout", stdout, self), _Stream("sys.stderr", stderr, self)
        sys.stdout, sys.stderr = self._streams

        def report_unraisable(unraisable: Any) -> None:
            self._unraisable.reports = True
            try:
                on_unraisable(unraisable)
            finally:
                self._unraisable.reports = False

        self._hook = sys.unraisablehook = report_unraisable
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop; a thread that hangs prints as it would without this."""
        stdout, stderr, on_unraisable = self._was
        sys.stdout = stdout if sys.stdout is self._streams[0] else sys.stdout
        sys.stderr = stderr if sys.stderr is self._streams[1] else sys.stderr
        sys.unraisablehook = on_unraisable if sys.unraisablehook is self._hook else sys.unraisablehook
        self._descriptor.restore(stdout)

    def lines(self) -> list[str]:
        """Where something was printed and how it begins, one line for each place."""
        places = dict.fromkeys(place for place, _text in self._texts)
        found = {each: "".join(text for place, text in self._texts if place == each) for each in places}
        if direct := self._descriptor.beginning():
            found[f"file descriptor {_STDOUT}"] = direct
        return [f"{text[:_SHOWN]!r} was printed to {place}" for place, text in found.items()]

    def write(self, stream: _Stream, text: str) -> int:
        """Print text, and remember its beginning."""
        if (stream.place == "sys.stdout" or not self._is_reported()) and len(self._texts) < _SHOWN:
            self._texts.append((stream.place, text[:_SHOWN]))
        return self._descriptor.pass_on(stream.stream, text)

    def _is_reported(self) -> bool:
        """Whether the calling code does not print, but logs or warns."""
        if getattr(self._unraisable, "reports", False):
            return True
        frame = sys._getframe(1)
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _NOT_PRINTING:
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return False


class _Stream:
    """``sys.stdout`` or ``sys.stderr`` while it is watched."""

    def __init__(self, place: str, stream: Any, printed: Printed) -> None:
        self.place, self.stream, self._printed = place, stream, printed

    def write(self, text: str) -> int:
        return self._printed.write(self, text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Descriptor:
    """File descriptor 1, redirected to a file."""

    def __init__(self) -> None:
        self._saved: int | None = None
        self._lock = threading.Lock()

    def redirect(self, stdout: Any) -> None:
        if _logs_to_stdout():
            # What handlers write there cannot be told from what a plugin does.
            return
        stdout.flush()
        try:
            saved = os.dup(_STDOUT)
        except OSError:
            return  # it is closed
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - until `restore`
        os.dup2(self._file.fileno(), _STDOUT)
        self._saved = saved

    def restore(self, stdout: Any) -> None:
        with self._lock:
            if self._saved is None:
                return
            stdout.flush()
            os.dup2(self._saved, _STDOUT)
            os.close(self._saved)
            self._saved = None
            self._file.seek(0)
            while data := self._file.read(65536):
                os.write(_STDOUT, data)
            self._file.close()

    def beginning(self) -> str:
        with self._lock:
            if self._saved is None:
                return ""
            return os.pread(self._file.fileno(), _SHOWN, 0).decode(errors="replace")

    def pass_on(self, stream: Any, text: str) -> int:
        """Write text to where the stream would write without the redirection."""
        with self._lock:
            if self._saved is not None and _fileno(stream) == _STDOUT:
                os.write(self._saved, text.encode(stream.encoding or "utf-8", "backslashreplace"))
                return len(text)
        written: int = stream.write(text)
        return written


def _logs_to_stdout() -> bool:
    loggers = [logging.getLogger(), *(each for each in logging.root.manager.loggerDict.values())]
    handlers = [handler for each in loggers if isinstance(each, logging.Logger) for handler in each.handlers]
    return any(_fileno(getattr(handler, "stream", None)) == _STDOUT for handler in handlers)


def _fileno(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return -1
