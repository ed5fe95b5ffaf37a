"""Spark's errors without the JVM's stack trace. Parses the texts of Spark and of Python workers; never raises.

The reason for a missing Python module names the executor, which may take two seconds: some versions of Spark omit it
from the error, and the status store is updated later.
"""

from __future__ import annotations

import itertools
import re
import time

from penstock.errors import shortened, text_of
from penstock.runtime.tracebacks import is_internal, traceback_of
from penstock.spark import cluster

_TRACEBACK = "Traceback (most recent call last):"
_WORKER_DIED = ("Python worker exited unexpectedly", "ExecutorLostFailure")
# The rest of Spark's text advises on tracebacks, which a killed worker does not have.
_ADVICE = ". Consider setting "
_FRAME = re.compile(r'  File "')
_PLACE = re.compile(r'  File "([^"]+)", line (\d+), in (.+)')
# Paths of the standard library and of packages.
_INSTALLED = re.compile(r"/(?:site-packages|dist-packages|python3[^/]*)/")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_TASK = re.compile(r"\(TID \d+\) \((\S+) executor (\w+)\)")
_CALLED_JAVA = "An error occurred while calling"
# The text of every error of a task contains one of them; errors on the driver do not.
_TASK_ERRORS = ("org.apache.spark.", "was thrown from the Python worker")
# Maximum length of a reason, which may contain a record.
_LONGEST = 1000
# Timeout and period of the search for the failed task in Spark's status store.
_SEARCH_S, _SEARCH_PERIOD_S = 2.0, 0.1


def python_traceback(error: BaseException) -> str:
    """The Python traceback from inside a task, from the program's first frame onwards; empty if there is none."""
    _, separator, rest = text_of(error).rpartition(_TRACEBACK)
    if not separator:
        return ""
    lines = []
    for line in rest.splitlines():
        if line.startswith(("\tat ", " SQLSTATE", "Driver stacktrace")):
            break
        lines.append(line)
    return "\n".join([_TRACEBACK, *_from_the_program(lines[1:])]).rstrip()


def _from_the_program(lines: list[str]) -> list[str]:
    """A traceback's lines without PySpark's and Penstock's frames above the program's; all without program frames."""
    # The error's message, which may contain frames, follows the indented lines.
    frames = itertools.takewhile(lambda line: line.startswith(" "), lines)
    starts = (number for number, line in enumerate(frames) if _FRAME.match(line) and not is_internal(line))
    return lines[next(starts, 0) :]


def place(error: BaseException) -> str:
    """The program's line that raised an error: ``app.py:12 in parse``; empty without a frame of the program."""
    lines = (python_traceback(error) or traceback_of(error)).splitlines()
    frames = [match for line in lines if (match := _PLACE.match(line)) and not is_internal(line)]
    for match in reversed(frames):
        path, number, function = match.groups()
        if not _INSTALLED.search(path):
            return f"{path.rpartition('/')[2]}:{number} in {function}"
    return ""


def reason(error: BaseException, lacked: str = "") -> str:
    """Type and message of the original error in one short line; for a missing module also executor and remedy.

    ``lacked`` is the name for a missing module in the message, such as its distribution and version.
    """
    text = text_of(error)
    original, module = shortened(_original(error, text), _LONGEST), missing_module(error)
    if not module:
        return original
    where = _executor(text) or _executor_that_lacks(module) or "an executor"
    return (
        f"the Python of {where} lacks {lacked or f'the module {module!r}'}: install it there, or send it with "
        f"--py-files, or in an archive with --archives ({original})"
    )


def _original(error: BaseException, text: str) -> str:
    for line in text.splitlines():
        for words in _WORKER_DIED:
            if words in line:
                return line[line.index(words) :].partition(_ADVICE)[0].strip()
    inner = python_traceback(error)
    if inner:
        lines = [line for line in inner.splitlines()[1:] if line.strip()]
        # The type and the first line of the message follow the indented frames.
        return next((line for line in lines if not line.startswith(" ")), lines[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip() and _CALLED_JAVA not in line]
    if lines and _CALLED_JAVA in text and lines[0].startswith(": "):
        # The text of a Java exception starts with its class.
        return lines[0].removeprefix(": ")
    return f"{type(error).__name__}: {lines[0].removeprefix(': ')}" if lines else type(error).__name__


def missing_module(error: BaseException) -> str:
    """The Python module that a task lacked; empty if none was missing."""
    text = text_of(error)
    if not any(words in text for words in _TASK_ERRORS):
        return ""
    # Only the last error of a traceback counts: the program may have handled an ImportError. There is no traceback if
    # the worker did not start.
    match = _MISSING_MODULE.search(_original(error, text) if _TRACEBACK in text else text)
    return match[1] if match else ""


def _executor(text: str) -> str:
    match = _TASK.search(text)
    return f"executor {match[2]} on {match[1]}" if match else ""


def _executor_that_lacks(module: str) -> str:
    """The executor of a failed task that lacked a module; empty if the search times out."""
    deadline = time.monotonic() + _SEARCH_S
    while True:
        for location, text in cluster.failed_tasks():
            if any(match[1] == module for match in _MISSING_MODULE.finditer(text)):
                return f"executor {location.executor_id} on {location.host}"
        if time.monotonic() >= deadline:
            return ""
        time.sleep(_SEARCH_PERIOD_S)
