"""``ListenerCounts``: what became of the events of a listener. Imports no Spark, as plugins import it."""

from __future__ import annotations

from attrs import frozen


@frozen
class ListenerCounts:
    """A listener on the bus, and what became of its events.

    Attributes:
        name: the plugin with distribution and version, or the class.
        dropped: events that the listener lost because its queue was full.
        failed: events on which it raised.
        disabled: whether the bus delivers it no more events.
    """

    name: str
    dropped: int
    failed: int
    disabled: bool
