"""The names by which a run knows what it has in common with an earlier one.

Owns the rule: what the program says with ``setName``, of the stream or of what was made with it in one call; else the
operation and how many of it came before. Called before the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.errors import ConfigurationError
from penstock.graph.node import Node


def named(streams: Iterable[Node], among: Iterable[Node]) -> dict[str, Any]:
    """Streams by name, in their order.

    Args:
        streams: to name.
        among: the streams whose names the program may have said.

    Raises:
        ConfigurationError: two have the same name.
    """
    streams = list(streams)
    for stream in among:
        if stream.name is not None:
            _pass_on(stream, {each.number for each in streams})
    # One that the program says, to have an earlier run's state go there, is not given to another.
    taken = {stream.name for stream in streams}
    found: dict[str, Any] = {}
    counted: Counter[str] = Counter()
    for stream in streams:
        name = stream.name
        while name is None:
            name = automatic(stream.call_site.operation, counted[stream.call_site.operation])
            counted[stream.call_site.operation] += 1
            name = None if name in taken else name
        if name in found:
            raise ConfigurationError(
                f"two streams have the name {name!r}, made by {found[name].call_site.short} and "
                f"{stream.call_site.short}: a checkpoint tells them apart by it; give them others with setName"
            )
        found[name] = stream
    return found


def _pass_on(stream: Node, wanted: set[int]) -> None:
    """Give a stream's name to the nearest of those to name that were made with it, in one call."""
    waiting = [stream]
    while waiting:
        each = waiting.pop()
        if each.number in wanted:
            each.name = each.name or stream.name
        else:
            waiting.extend(parent for parent in each.parents if parent.call_site == stream.call_site)


def automatic(operation: str, number: int) -> str:
    """The name of a stream that the program gives none: its operation's ``number``-th, counted from 0."""
    return f"{operation}-{number}"


def is_automatic(name: str, operation: str) -> bool:
    """Whether a name is one that a stream has because the program gave it none."""
    return name.startswith(f"{operation}-") and name[len(operation) + 1 :].isdecimal()
