"""The plugin: the hook that ``DStream.updateStateByKey`` and ``DStream.mapWithState`` call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import hookimpl

if TYPE_CHECKING:
    from penstock import DStream
    from penstock.spi import StateOptions


@hookimpl
def state(stream: DStream[Any], operator: str, options: StateOptions) -> DStream[Any] | None:
    """Return the stream of a stateful operator."""
    # Imported here, because every executor loads every installed plugin.
    from penstock_state.keyed_state import MappedStream, updated_stream

    if operator == "updateStateByKey":
        return updated_stream(stream, options)
    return MappedStream.of(stream, options) if operator == "mapWithState" else None
