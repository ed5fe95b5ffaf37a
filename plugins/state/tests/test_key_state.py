"""``KeyState``: what a mapping function may do with a state."""

from __future__ import annotations

from typing import Any

import pytest

from penstock_state.key_state import KeyState


def test_state_of_a_new_key_is_not_set() -> None:
    state: KeyState[int] = KeyState()
    assert (state.exists(), state.getOption(), repr(state)) == (False, None, "State(not set)")
    with pytest.raises(LookupError, match=r"State is not set: check exists\(\) first, or use getOption\(\)"):
        state.get()
    state.update(7)
    assert (state.exists(), state.get(), repr(state)) == (True, 7, "State(7)")


def test_state_is_removed_and_not_set_to_none() -> None:
    state: KeyState[Any] = KeyState(7)
    with pytest.raises(ValueError, match=r"a state cannot be None; to remove it, call remove\(\)"):
        state.update(None)
    state.remove()
    assert not state.exists()
    with pytest.raises(ValueError, match="cannot update a state that was removed"):
        state.update(8)
    with pytest.raises(ValueError, match="cannot remove a state that was removed"):
        state.remove()


def test_state_that_times_out_is_only_read() -> None:
    state: KeyState[int] = KeyState(7, timing_out=True)
    assert (state.isTimingOut(), state.get()) == (True, 7)
    with pytest.raises(ValueError, match="cannot update a state that times out: it is removed when the function"):
        state.update(8)
    with pytest.raises(ValueError, match="cannot remove a state that times out"):
        state.remove()
