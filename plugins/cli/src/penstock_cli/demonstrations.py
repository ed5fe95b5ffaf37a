"""Demonstrations of receivers and outputs that distributions offer in the entry-point group ``penstock.demos``.

An entry point names a function without arguments, which returns a context manager. For a receiver, it runs what the
receiver of the same name needs, such as a broker, and gives the receiver's options and a function that sends lines. The
command calls that function from one thread at a time, after the receiver has started. For an output, it gives an
``OutputDemonstration``.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock import PenstockError
from penstock.spi import UnknownNameError, check_core_version, summary_of
from penstock_cli.line_producer import SendLines
from penstock_cli.shared import DEMOS_GROUP

if TYPE_CHECKING:
    from penstock import DStream


class OutputDemonstration(Protocol):
    """An output to which the lines of the receiver ``synthetic`` go."""

    def attach(self, lines: DStream[str]) -> object:
        """Define the output operation. Called before the start."""

    def report(self) -> str:
        """Describe what was written, in lines of text. Called after the stop."""
        raise NotImplementedError


Demonstration = Callable[[], AbstractContextManager[tuple[Mapping[str, Any], SendLines] | OutputDemonstration]]


def demonstration_names() -> list[str]:
    """The names of the installed demonstrations."""
    return sorted({entry_point.name for entry_point in importlib.metadata.entry_points(group=DEMOS_GROUP)})


def demonstration(name: str) -> Demonstration:
    """Load a demonstration.

    Raises:
        UnknownNameError: no installed distribution has it.
        PenstockError: it does not load.
    """
    for entry_point in importlib.metadata.entry_points(group=DEMOS_GROUP, name=name):
        try:
            check_core_version(entry_point.dist)
            return cast(Demonstration, entry_point.load())
        except Exception as error:
            origin = entry_point.dist.name if entry_point.dist is not None else entry_point.value
            raise PenstockError(f"the demonstration {name} of {origin} does not load: {summary_of(error)}") from error
    advice = "Plugins bring them; penstock demo --receiver NAME runs any installed receiver on a source of your own"
    raise UnknownNameError("demonstration", name, demonstration_names(), advice=advice)
