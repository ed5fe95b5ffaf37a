"""``State``: the state of one key, passed to the mapping function of ``mapWithState``. A plugin implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

S = TypeVar("S")


class State(ABC, Generic[S]):
    """The state of one key, valid during one call of the mapping function. Its rules are Spark's."""

    __slots__ = ()

    @abstractmethod
    def exists(self) -> bool:
        """Whether the key has a state."""

    @abstractmethod
    def get(self) -> S:
        """The state; raises ``LookupError`` if the key has none."""

    @abstractmethod
    def getOption(self) -> S | None:
        """The state; ``None`` when the key has none."""

    @abstractmethod
    def update(self, newState: S) -> None:
        """Set the state; raises ``ValueError`` for ``None``, and if the state was removed or is timing out."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the state; raises ``ValueError`` if it was removed already or is timing out."""

    @abstractmethod
    def isTimingOut(self) -> bool:
        """Whether the state timed out: it is removed after this call and cannot be changed."""
