"""Tracebacks that begin with the program's own frame, without those of PySpark and Penstock above it."""

from __future__ import annotations

import re
import traceback
from functools import cache
from types import TracebackType

from penstock.errors import text_of

# Packages whose code is not the program's: Penstock, and plugins that define kinds of streams.
_packages = {"penstock"}


def add_package(name: str) -> None:
    """Have tracebacks leave out the code of a package above that of the program."""
    _packages.add(name)
    _pattern.cache_clear()


@cache
def _pattern() -> re.Pattern[str]:
    # A folder of the program may be named penstock, too. In an archive for executors it is penstock/penstock.
    names = "|".join(map(re.escape, sorted(_packages)))
    return re.compile(
        rf'  File "(?:<|[^"]*/(?:pyspark(?:\.zip)?|(?:site-packages|dist-packages|src|penstock)/(?:{names}))/)'
    )


def is_internal(line: str) -> bool:
    """Whether a line of a traceback names a file of PySpark, of Penstock or of a plugin that defines streams."""
    return _pattern().match(line) is not None


def from_the_program(whole: TracebackType | None) -> TracebackType | None:
    """A traceback from the program's first frame onwards; unchanged without program frames."""
    frame = whole
    while frame is not None and is_internal(f'  File "{frame.tb_frame.f_code.co_filename}"'):
        frame = frame.tb_next
    return frame or whole


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type if it has none. Some errors of Arrow contain a C++ stack."""
    return next(iter(text_of(error).splitlines()), "") or type(error).__name__


def raised_at(error: BaseException, filename: str = "") -> str:
    """The line that raised a caught exception, or called what did: ``model.py:12 in compute``.

    It is the last line in the file ``filename``, if there is one.
    """
    frames = traceback.extract_tb(error.__traceback__)
    *_, frame = [frame for frame in frames if frame.filename == filename] or frames
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}"


def traceback_of(error: BaseException) -> str:
    """An exception with its causes, and its traceback from the program's first frame onwards."""
    return "".join(traceback.format_exception(type(error), error, from_the_program(error.__traceback__)))
