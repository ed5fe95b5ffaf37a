"""``KeyState``: the state of one key during a call of the mapping function of ``mapWithState``."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock import State

S = TypeVar("S")

#: Marks a key without a state. ``None`` cannot mark it, because an initial state may be ``None``.
MISSING: Any = object()


class KeyState(State[S]):
    """A state, and what the mapping function did with it."""

    __slots__ = ("is_removed", "is_timing_out", "is_updated", "value")

    def __init__(self, value: Any = MISSING, *, timing_out: bool = False) -> None:
        self.value = value
        self.is_timing_out = timing_out
        self.is_updated = False
        self.is_removed = False

    def exists(self) -> bool:
        return self.value is not MISSING

    def get(self) -> S:
        if self.value is MISSING:
            raise LookupError("State is not set: check exists() first, or use getOption()")
        value: S = self.value
        return value

    def getOption(self) -> S | None:
        return None if self.value is MISSING else self.value

    def update(self, newState: S) -> None:
        self._check("update")
        if newState is None:
            raise ValueError("a state cannot be None; to remove it, call remove()")
        self.value = newState
        self.is_updated = True

    def remove(self) -> None:
        self._check("remove")
        self.value = MISSING
        self.is_removed = True
        self.is_updated = False

    def isTimingOut(self) -> bool:
        return self.is_timing_out

    def _check(self, change: str) -> None:
        if self.is_removed:
            raise ValueError(f"cannot {change} a state that was removed")
        if self.is_timing_out:
            raise ValueError(f"cannot {change} a state that times out: it is removed when the function returns")

    def __repr__(self) -> str:
        return f"State({self.value!r})" if self.exists() else "State(not set)"
