"""Spark's errors without the JVM's stack trace. Parses the texts of Spark and of Python workers; never raises.

An error of a task that lacks a Python module names the executor, which may take two seconds: not every version of Spark
says it in the error, and its status store follows later.
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
# What follows in Spark's text advises on tracebacks: a worker that was killed has none.
_ADVICE = ". Consider setting "
_FRAME = re.compile(r'  File "')
_PLACE = re.compile(r'  File "([^"]+)", line (\d+), in (.+)')
# Of the standard library and of packages.
_INSTALLED = re.compile(r"/(?:site-packages|dist-packages|python3[^/]*)/")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_TASK = re.compile(r"\(TID \d+\) \((\S+) executor (\w+)\)")
_CALLED_JAVA = "An error occurred while calling"
# One is in the text of every error of a task, and none in that of an error on the driver.
_OF_A_TASK = ("org.apache.spark.", "was thrown from the Python worker")
# Characters of a reason: an error of the program may have a record in its message.
_LONGEST = 1000
# How long and how often the failed task is looked for in Spark's status store.
_LOOK_FOR_S, _LOOK_EVERY_S = 2.0, 0.1


def python_traceback(error: BaseException) -> str:
    """The Python traceback from inside a task, from the program's first frame on; empty when the error has none."""
    _, found, rest = text_of(error).rpartition(_TRACEBACK)
    if not found:
        return ""
    lines = []
    for line in rest.splitlines():
        if line.startswith(("\tat ", " SQLSTATE", "Driver stacktrace")):
            break
        lines.append(line)
    return "\n".join([_TRACEBACK, *_from_the_program(lines[1:])]).rstrip()


def _from_the_program(lines: list[str]) -> list[str]:
    """A traceback's lines without the frames of PySpark and Penstock above the program's; all if it has none."""
    # The error's message, which may have frames of its own, follows the indented lines.
    frames = itertools.takewhile(lambda line: line.startswith(" "), lines)
    starts = (number for number, line in enumerate(frames) if _FRAME.match(line) and not is_internal(line))
    return lines[next(starts, 0) :]


def place(error: BaseException) -> str:
    """Where in the program an error was raised: ``app.py:12 in parse``; empty if no frame is the program's."""
    lines = (python_traceback(error) or traceback_of(error)).splitlines()
    found = [each for line in lines if (each := _PLACE.match(line)) and not is_internal(line)]
    for each in reversed(found):
        path, number, function = each.groups()
        if not _INSTALLED.search(path):
            return f"{path.rpartition('/')[2]}:{number} in {function}"
    return ""


def reason(error: BaseException, lacked: str = "") -> str:
    """Type and message of the original error in one short line; with executor and remedy where a task lacked a module.

    Args:
        error: what Spark raised.
        lacked: what to name in place of a missing module, such as its distribution and version.
    """
    text = text_of(error)
    original, module = shortened(_original(error, text), _LONGEST), missing_module(error)
    if not module:
        return original
    where = _executor(text) or _executor_that_lacks(module) or "an executor"
    return (
        f"the Python of {where} lacks {lacked or f'the module {module!r}'}: install it there, or send it with "
        f"--py-files, or with `penstock pack` and --archives ({original})"
    )


def _original(error: BaseException, text: str) -> str:
    for line in text.splitlines():
        for words in _WORKER_DIED:
            if words in line:
                return line[line.index(words) :].partition(_ADVICE)[0].strip()
    inner = python_traceback(error)
    if inner:
        lines = [line for line in inner.splitlines()[1:] if line.strip()]
        # After the indented frames come the type and the first line of the message.
        return next((line for line in lines if not line.startswith(" ")), lines[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip() and _CALLED_JAVA not in line]
    if lines and _CALLED_JAVA in text and lines[0].startswith(": "):
        # Java's exception, which names its own class.
        return lines[0].removeprefix(": ")
    return f"{type(error).__name__}: {lines[0].removeprefix(': ')}" if lines else type(error).__name__


def missing_module(error: BaseException) -> str:
    """The Python module that a task lacked; empty if none was missing."""
    text = text_of(error)
    if not any(words in text for words in _OF_A_TASK):
        return ""
    # Without a traceback the worker did not start. In one, the program may have handled what an import raised.
    found = _MISSING_MODULE.search(_original(error, text) if _TRACEBACK in text else text)
    return found[1] if found else ""


def _executor(text: str) -> str:
    found = _TASK.search(text)
    return f"executor {found[2]} on {found[1]}" if found else ""


def _executor_that_lacks(module: str) -> str:
    """The executor of a failed task that lacked a module; empty if Spark does not know one in time."""
    deadline = time.monotonic() + _LOOK_FOR_S
    while True:
        for location, text in cluster.failed_tasks():
            if any(found[1] == module for found in _MISSING_MODULE.finditer(text)):
                return f"executor {location.executor_id} on {location.host}"
        if time.monotonic() >= deadline:
            return ""
        time.sleep(_LOOK_EVERY_S)
