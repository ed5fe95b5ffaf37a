"""What went wrong, in words: Spark's errors without the stack of the JVM.

Owns the reading of Spark's and Python workers' error texts. Never raises.
"""

from __future__ import annotations

from penstock.errors import text_of

_TRACEBACK = "Traceback (most recent call last):"
_WORKER_DIED = ("Python worker exited unexpectedly", "ExecutorLostFailure")


def python_traceback(error: BaseException) -> str:
    """The traceback of the program's code inside a task, empty when the error holds none."""
    _, found, rest = text_of(error).rpartition(_TRACEBACK)
    if not found:
        return ""
    lines = []
    for line in rest.splitlines():
        if line.startswith(("\tat ", " SQLSTATE", "Driver stacktrace")):
            break
        lines.append(line)
    return "\n".join([_TRACEBACK, *lines[1:]]).rstrip()


def reason(error: BaseException) -> str:
    """One line: the type and message that say what happened."""
    text = text_of(error)
    for line in text.splitlines():
        for words in _WORKER_DIED:
            if words in line:
                return line[line.index(words) :].strip()
    inner = python_traceback(error)
    if inner:
        lines = [line for line in inner.splitlines()[1:] if line.strip()]
        # Behind the indented frames: the type and the first line of the message.
        return next((line for line in lines if not line.startswith(" ")), lines[-1])
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and "An error occurred while calling" not in line
    ]
    return f"{type(error).__name__}: {lines[0].removeprefix(': ')}" if lines else type(error).__name__
