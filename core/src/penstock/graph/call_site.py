"""``CallSite``: the place in the program that created a stream, for events, messages and plans."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from attrs import frozen

_PACKAGE = str(Path(__file__).parent.parent) + os.sep


@frozen
class CallSite:
    """A place in the program.

    Attributes:
        operation: ``pprint``.
        short: ``pprint at app.py:12``.
        long: the same with the full path.
    """

    operation: str
    short: str
    long: str


def call_site() -> CallSite:
    """The innermost stack frame outside Penstock; the operation is the function that it called."""
    frame, name = sys._getframe(1), ""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, name = frame.f_back, frame.f_code.co_name
    path, line = Path(frame.f_code.co_filename), frame.f_lineno
    return CallSite(name, f"{name} at {path.name}:{line}", f"{name} at {path}:{line}")
