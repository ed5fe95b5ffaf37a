"""``Splitter``: what makes records of received bytes.

Owns the contract between the receivers and the two ways to split. Never reads a socket and never stores. Runs on the
receiver's thread.
"""

from __future__ import annotations

from typing import Any, Protocol


class Splitter(Protocol):
    """Bytes in, columns of whole records out. What is cut anywhere, inside a character included, comes out whole."""

    @property
    def pending(self) -> int:
        """Bytes received and not looked at."""
        ...

    @property
    def is_full(self) -> bool:
        """``take`` must be called before there is more space."""
        ...

    @property
    def fault(self) -> Exception | None:
        """Why the stream makes no sense from here on, once ``take`` has come to that point."""
        ...

    def space(self, at_most: int) -> memoryview:
        """Where to receive into: at least one byte, at most so many."""
        ...

    def advance(self, count: int) -> None:
        """So many bytes were received into the space."""
        ...

    def end(self) -> None:
        """The stream has ended: what is left is the last record, or a fault."""
        ...

    def take(self) -> Any:
        """The records that are whole, as a pyarrow Array, ``None`` when there are none."""
        ...
