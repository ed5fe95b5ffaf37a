"""``State``: the state of one key, passed to the mapping function of ``mapWithState``. Its rules are Spark's."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class _Missing(Enum):
    MISSING = auto()


#: Stands for a state that does not exist: ``None`` may be a value. An enum member stays the same object when pickled.
MISSING = _Missing.MISSING


class State(Generic[S]):
    """The state of one key, valid during one call of the mapping function."""

    __slots__ = ("_removed", "_timing_out", "_updated", "_value")

    def __init__(self, value: Any = MISSING, *, timing_out: bool = False) -> None:
        self._value = value
        self._timing_out = timing_out
        self._updated = False
        self._removed = False

    def exists(self) -> bool:
        """Whether the key has a state."""
        return self._value is not MISSING

    def get(self) -> S:
        """The state; raises ``LookupError`` if the key has none."""
        if self._value is MISSING:
            raise LookupError("State is not set: check exists() first, or use getOption()")
        value: S = self._value
        return value

    def getOption(self) -> S | None:
        """The state; ``None`` when the key has none."""
        return None if self._value is MISSING else self._value

    def update(self, newState: S) -> None:
        """Set the state; raises ``ValueError`` for ``None``, and if the state was removed or is timing out."""
        self._check("update")
        if newState is None:
            raise ValueError("a state cannot be None; to remove it, call remove()")
        self._value = newState
        self._updated = True

    def remove(self) -> None:
        """Remove the state; raises ``ValueError`` if it was removed already or is timing out."""
        self._check("remove")
        self._value = MISSING
        self._removed = True
        self._updated = False

    def isTimingOut(self) -> bool:
        """Whether the state timed out: it is removed after this call and cannot be changed."""
        return self._timing_out

    def _check(self, what: str) -> None:
        if self._removed:
            raise ValueError(f"cannot {what} a state that was removed")
        if self._timing_out:
            raise ValueError(f"cannot {what} a state that times out: it is removed when the function returns")

    def __repr__(self) -> str:
        return f"State({self._value!r})" if self.exists() else "State(not set)"
