"""Stream names, by which a recovered run finds the checkpoint's streams in a program that may have changed.

A stream's name is the argument of ``setName`` on the stream, or on another stream that the same call created. An
unnamed stream is named after its operation and the number of earlier unnamed streams of that operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.errors import ConfigurationError
from penstock.graph.node import Node


def assign(streams: Iterable[Node], among: Iterable[Node]) -> dict[str, Any]:
    """Name all streams, and return them by name; ``among`` are all streams that the program may have named."""
    streams = list(streams)
    for stream in among:
        if stream.name is not None:
            _pass_on(stream, {wanted.number for wanted in streams})
    # The program may set an automatic name with setName, to select the stream for a saved state.
    taken = {stream.name for stream in streams}
    by_name: dict[str, Any] = {}
    counted: Counter[str] = Counter()
    for stream in streams:
        name = stream.name
        while name is None:
            name = automatic(stream.call_site.operation, counted[stream.call_site.operation])
            counted[stream.call_site.operation] += 1
            name = None if name in taken else name
        if name in by_name:
            raise ConfigurationError(
                f"two streams have the name {name!r}, created by {by_name[name].call_site.short} and "
                f"{stream.call_site.short}: checkpoints need distinct names; rename one with setName"
            )
        by_name[name] = stream
    return by_name


def _pass_on(stream: Node, wanted: set[int]) -> None:
    """Give a stream's name to the nearest of the wanted streams that the same call created."""
    waiting = [stream]
    while waiting:
        node = waiting.pop()
        if node.number in wanted:
            node.name = node.name or stream.name
        else:
            waiting.extend(parent for parent in node.parents if parent.call_site == stream.call_site)


def automatic(operation: str, number: int) -> str:
    """The name of the ``number``-th unnamed stream of an operation, counted from 0."""
    return f"{operation}-{number}"


def is_automatic(name: str, operation: str) -> bool:
    """Whether a name has the form of ``automatic``."""
    return name.startswith(f"{operation}-") and name[len(operation) + 1 :].isdecimal()


def function_name(function: Any) -> str:
    """A function's full name: module and qualified name."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
