"""Stream names: how a recovered run finds the streams of the checkpoint in a program that may have changed.

A stream's name is what the program gave with ``setName``, to the stream or to another one made in the same call. A
stream without one is named after its operation and the number of unnamed streams of that operation before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.errors import ConfigurationError
from penstock.graph.node import Node


def assign(streams: Iterable[Node], among: Iterable[Node]) -> dict[str, Any]:
    """Give every stream a name.

    Args:
        streams: the streams to name.
        among: streams that the program may have named.

    Returns:
        The streams by name, in their order.
    """
    streams = list(streams)
    for stream in among:
        if stream.name is not None:
            _pass_on(stream, {each.number for each in streams})
    # The program may give an automatic name with setName, to say which stream a saved state belongs to.
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
                f"{stream.call_site.short}: checkpoints need distinct names; rename one with setName"
            )
        found[name] = stream
    return found


def _pass_on(stream: Node, wanted: set[int]) -> None:
    """Give a stream's name to the nearest of the wanted streams that the same call made."""
    waiting = [stream]
    while waiting:
        each = waiting.pop()
        if each.number in wanted:
            each.name = each.name or stream.name
        else:
            waiting.extend(parent for parent in each.parents if parent.call_site == stream.call_site)


def automatic(operation: str, number: int) -> str:
    """The name of the ``number``-th unnamed stream of an operation, counted from 0."""
    return f"{operation}-{number}"


def is_automatic(name: str, operation: str) -> bool:
    """Whether ``automatic`` gives this name."""
    return name.startswith(f"{operation}-") and name[len(operation) + 1 :].isdecimal()


def function_name(function: Any) -> str:
    """A function's full name: module and qualified name."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
