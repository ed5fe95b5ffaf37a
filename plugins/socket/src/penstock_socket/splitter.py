"""``Splitter``: the interface between the receivers and what splits received bytes into records."""

from __future__ import annotations

from typing import Any, Protocol


class Splitter(Protocol):
    """Bytes in, columns of whole records out, wherever the network has cut the bytes. On the receiver's thread."""

    @property
    def pending(self) -> int:
        """Bytes received and not searched."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether ``take`` must be called before there is more space."""
        ...

    @property
    def fault(self) -> Exception | None:
        """Why the rest of the stream is malformed; ``None`` until ``take`` has found it so."""
        ...

    def space(self, at_most: int) -> memoryview:
        """Return where to receive into: at least one byte, at most ``at_most``."""
        ...

    def advance(self, count: int) -> None:
        """Note that ``count`` bytes were received into the space."""
        ...

    def end(self) -> None:
        """Note the end of the stream: the remaining bytes are the last record, or a fault."""
        ...

    def take(self) -> Any:
        """Return the whole records as a pyarrow Array, ``None`` when there are none."""
        ...
