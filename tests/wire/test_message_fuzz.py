"""Mutated messages: each is refused, or is a message of the class that was expected; nothing else happens."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock.blocks.block import StoredBlock
from penstock.blocks.block_transfer import BlocksLost, FindBlock
from penstock.errors import WireError
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    ReportError,
    StopReceiver,
    UpdateRateLimit,
)
from penstock.wire.json_codec import from_json, to_json

MESSAGES: list[Any] = [
    AddBlocks(0, 1, [StoredBlock("input-0-1-0", 0, 10, 100, "/blocks/0")]),
    BlocksLost([]),
    CleanUpBlocks(["input-0-1-0"]),
    DeregisterReceiver(0, 1, "done", "", ended=True),
    FindBlock("input-0-1-0", "10.0.0.1"),
    RegisterReceiver(0, 1, "Silent", 4000, plugin="acme 1"),
    Registered(desired=UpdateRateLimit(1.5, 2, True)),
    ReleaseReceiver(),
    ReportError(0, 1, "lost", "Traceback"),
    StopReceiver("stop", 5),
    UpdateRateLimit(None, 1),
]
# Values that JSON has, and some that its readers stumble over.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("9" * 5000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)


class Reader:
    """Reads changed messages: each is refused, or of the class; counts both."""

    def __init__(self, message: object) -> None:
        self._message, self._whole = message, to_json(message)
        self.accepted = self.refused = 0
        assert from_json(type(message), self._whole) == message

    def read(self, body: bytes) -> None:
        if body == self._whole:
            return
        try:
            assert type(from_json(type(self._message), body)) is type(self._message)
            self.accepted += 1
        except WireError:
            self.refused += 1


@pytest.fixture(autouse=True)
def _no_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a message was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_any_change_of_an_attribute_is_refused_or_makes_a_message(message: object) -> None:
    whole, reader = json.loads(to_json(message)), Reader(message)

    @settings(max_examples=50, deadline=None)
    @given(name=st.sampled_from([*whole, "more"]), value=VALUES, drops=st.booleans())
    def check(name: str, value: object, drops: bool) -> None:
        changed = {key: value for key, value in whole.items() if not (drops and key == name)}
        if not drops:
            changed[name] = value
        reader.read(json.dumps(changed).encode())

    check()
    assert reader.accepted > 0 or not whole
    assert reader.refused > 0


@pytest.mark.parametrize("message", MESSAGES[:3] + MESSAGES[5:7], ids=lambda message: type(message).__name__)
def test_any_change_of_a_byte_is_refused_or_makes_a_message(message: object) -> None:
    whole, reader = to_json(message), Reader(message)

    @settings(max_examples=50, deadline=None)
    @given(start=st.integers(0, len(whole)), length=st.integers(0, 5), junk=st.binary(max_size=20))
    def check(start: int, length: int, junk: bytes) -> None:
        reader.read(whole[:start] + junk + whole[start + length :])

    check()
    assert reader.refused > 0
