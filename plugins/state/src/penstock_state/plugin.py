"""The plugin: the hook that the stateful operators of ``DStream`` call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import hookimpl

if TYPE_CHECKING:
    from penstock import DStream
    from penstock.spi import StateOptions, WindowOptions


@hookimpl
def state(stream: DStream[Any], operator: str, options: StateOptions | WindowOptions) -> DStream[Any] | None:
    """Return the stream of a stateful operator."""
    # Imported here, because every executor loads every installed plugin.
    from penstock.spi import WindowOptions
    from penstock_state.keyed_state import MappedStream, updated_stream
    from penstock_state.reduced_windows import windowed_stream

    if isinstance(options, WindowOptions):
        return windowed_stream(stream, operator, options)
    if operator == "updateStateByKey":
        return updated_stream(stream, options)
    return MappedStream.of(stream, options) if operator == "mapWithState" else None
