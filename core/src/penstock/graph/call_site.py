"""``CallSite``: the line of the program that created a stream, for events, messages and plans."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pluggy
from attrs import frozen

from penstock.runtime import tracebacks

# The folders whose code is not the program's: Penstock, the caller of hooks, and packages that define kinds of nodes.
_folders = {f"{Path(module).parent}{os.sep}" for module in (Path(__file__).parent, pluggy.__file__)}


def add_package(module: str) -> None:
    """Have call sites and tracebacks skip the code of the package that a module belongs to; not that of a program."""
    package = sys.modules.get(module.partition(".")[0])
    if package is not None and hasattr(package, "__path__") and package.__file__ is not None:
        _folders.add(f"{Path(package.__file__).parent}{os.sep}")
        tracebacks.add_package(package.__name__)


@frozen
class CallSite:
    """A line of the program, such as ``pprint at app.py:12``; ``long`` has the full path."""

    operation: str
    short: str
    long: str


def call_site() -> CallSite:
    """The call site of the innermost stack frame of the program; the operation is the function that it called."""
    frame, name, folders = sys._getframe(1), "", tuple(_folders)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folders):
        frame, name = frame.f_back, frame.f_code.co_name
    path, line = Path(frame.f_code.co_filename), frame.f_lineno
    return CallSite(name, f"{name} at {path.name}:{line}", f"{name} at {path}:{line}")
