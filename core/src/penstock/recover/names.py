"""The names by which a run knows what it has in common with an earlier one.

Owns the rule: what the program says with ``setName``, of the stream or of what was made with it in one call; else the
operation and how many of it came before. Called before
the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.errors import ConfigurationError
from penstock.graph.call_site import CallSite
from penstock.graph.stream import Stream


def named(streams: Iterable[Stream[Any]], among: Iterable[Stream[Any]]) -> dict[str, Any]:
    """Streams by name, in their order.

    Args:
        streams: to name.
        among: all streams of the program.

    Raises:
        ConfigurationError: two have the same name.
    """
    said: dict[CallSite, set[str]] = {}
    for stream in among:
        if stream.name is not None:
            said.setdefault(stream.call_site, set()).add(stream.name)
    found: dict[str, Any] = {}
    counted: Counter[str] = Counter()
    for stream in streams:
        name = stream.name
        if name is None and len(names := said.get(stream.call_site, set())) == 1:
            name = stream.name = next(iter(names))
        if name is None:
            name = automatic(stream.call_site.operation, counted[stream.call_site.operation])
            counted[stream.call_site.operation] += 1
        if name in found:
            raise ConfigurationError(
                f"two streams have the name {name!r}, made by {found[name].call_site.short} and "
                f"{stream.call_site.short}: a checkpoint tells them apart by it; give them others with setName"
            )
        found[name] = stream
    return found


def automatic(operation: str, number: int) -> str:
    """The name of a stream that the program gives none: its operation's ``number``-th, counted from 0."""
    return f"{operation}-{number}"


def is_automatic(name: str, operation: str) -> bool:
    """Whether a name is one that a stream has because the program gave it none."""
    return name.startswith(f"{operation}-") and name[len(operation) + 1 :].isdecimal()
