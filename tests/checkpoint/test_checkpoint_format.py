"""``Checkpoint``: its JSON round-trips, and nothing else is taken for a checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st
from tests.checkpoint.samples import FIRST
from tests.helpers.examples import examples

from penstock.checkpoint.checkpoint_format import BatchRange, Checkpoint, LateBatches, SavedInput, SavedState
from penstock.errors import CheckpointError

_text = st.text(max_size=8)
_int = st.integers(-(2**63), 2**63)
_float = st.floats(allow_nan=False)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _int | _float | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
_states = st.builds(SavedState, _text, _text, _text, _int, _text, st.dictionaries(_int, _text, max_size=3), _text)
_inputs = st.builds(
    SavedInput, _text, _text, _int, st.none() | _float, st.none() | st.dictionaries(_text, _json, max_size=3)
)


def checkpoint_between(times_ms: list[int], **values: Any) -> Checkpoint:
    return Checkpoint(zero_time_ms=times_ms[0], last_time_ms=times_ms[1], **values)


_checkpoints = st.builds(
    checkpoint_between,
    st.tuples(_int, _int).map(sorted),
    number=_int,
    written_ms=_int,
    application=_text,
    run=_text,
    versions=st.dictionaries(_text, _text, max_size=3),
    hash_seed=_text,
    batch_interval_ms=_int,
    pending=st.dictionaries(_int, _int, max_size=3),
    late=st.lists(st.builds(LateBatches, _int, _int, _int), max_size=2),
    skipped=st.lists(st.builds(BatchRange, _int, _int), max_size=2),
    needed_ms=_int,
    states=st.lists(_states, max_size=2),
    inputs=st.lists(_inputs, max_size=2),
    listeners=st.dictionaries(_text, _json, max_size=2),
    conf=st.dictionaries(_text, _text, max_size=2),
    program=st.none() | _text,
    folders=st.lists(_text, max_size=2),
    next_stream_id=_int,
    later_attempts=_int,
    logged_events=_int,
)


@settings(max_examples=examples(70), deadline=None)
@given(_checkpoints)
def test_json_round_trip_is_lossless(checkpoint: Checkpoint) -> None:
    assert Checkpoint.from_json(checkpoint.to_json()) == checkpoint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"format":%d}' % Checkpoint.format,
        b"\xff\xfe",
        b'{"format":%d,"number":"x"}' % Checkpoint.format,
        b"[" * 10**5,
    ],
)
def test_other_data_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="not a Penstock checkpoint"):
        Checkpoint.from_json(data)


@pytest.mark.parametrize("version", [0, Checkpoint.format - 1, Checkpoint.format + 1, str(Checkpoint.format), None])
def test_another_format_version_is_refused_and_named(version: object) -> None:
    refusal = rf"it has format version {version!r} .* reads version {Checkpoint.format}: run the"
    with pytest.raises(CheckpointError, match=refusal):
        Checkpoint.from_json(json.dumps({"format": version}).encode())


def test_last_batch_before_zero_time_is_refused() -> None:
    with pytest.raises(CheckpointError, match="its last batch, -1 ms, is before zero time, 0 ms"):
        Checkpoint.from_json(evolve(FIRST, last_time_ms=-1).to_json())


def test_unknown_field_is_refused() -> None:
    values = json.loads(FIRST.to_json())
    with pytest.raises(CheckpointError, match="not a Penstock checkpoint"):
        Checkpoint.from_json(json.dumps({**values, "more": 1}).encode())
