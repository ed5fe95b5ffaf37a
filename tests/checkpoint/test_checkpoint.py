"""``Checkpoint``: its JSON says all of it, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint.manifest import Checkpoint, SavedFile, SavedInput, SavedTable
from penstock.errors import CheckpointError

_text = st.text(max_size=8)
_int = st.integers(-(2**63), 2**63)
_float = st.floats(allow_nan=False)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _int | _float | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
_tables = st.builds(SavedTable, _text, _text, _text, _int, _text, st.dictionaries(_int, _text, max_size=3), _text)
_inputs = st.builds(
    SavedInput, _text, _text, _int, st.none() | _float, st.none() | st.dictionaries(_text, _json, max_size=3)
)
_checkpoints = st.builds(
    Checkpoint,
    number=_int,
    written_ms=_int,
    application=_text,
    run=_text,
    versions=st.dictionaries(_text, _text, max_size=3),
    hash_seed=_text,
    batch_interval_ms=_int,
    zero_time_ms=_int,
    last_time_ms=_int,
    pending=st.dictionaries(_int, _int, max_size=3),
    needed_ms=_int,
    tables=st.lists(_tables, max_size=2),
    inputs=st.lists(_inputs, max_size=2),
    listeners=st.dictionaries(_text, _json, max_size=2),
    conf=st.dictionaries(_text, _text, max_size=2),
    program=st.none() | st.builds(SavedFile, _text, _int, _int),
    folders=st.lists(_text, max_size=2),
    next_stream_id=_int,
    begun=_int,
).filter(lambda each: each.last_time_ms >= each.zero_time_ms)


@settings(max_examples=200, deadline=None)
@given(_checkpoints)
def test_what_is_read_is_what_was_written(checkpoint: Checkpoint) -> None:
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
        b'{"format":1}',
        b"\xff\xfe",
        b'{"format":1,"number":"x"}',
        b"[" * 10**5,
    ],
)
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint of Penstock's"):
        Checkpoint.from_json(data)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_is_refused_by_name(version: object) -> None:
    with pytest.raises(CheckpointError, match=r"it has format .* reads format 1"):
        Checkpoint.from_json(json.dumps({"format": version}).encode())


SMALL = Checkpoint(
    number=1,
    written_ms=0,
    application="a",
    run="r",
    versions={},
    hash_seed="0",
    batch_interval_ms=1,
    zero_time_ms=0,
    last_time_ms=0,
)


def test_one_whose_youngest_batch_is_before_zero_time_is_refused() -> None:
    with pytest.raises(CheckpointError, match="its last batch, -1 ms, is before zero time, 0 ms"):
        Checkpoint.from_json(evolve(SMALL, last_time_ms=-1).to_json())


def test_a_field_that_is_unknown_is_refused() -> None:
    values = json.loads(SMALL.to_json())
    with pytest.raises(CheckpointError, match="no checkpoint of Penstock's"):
        Checkpoint.from_json(json.dumps({**values, "more": 1}).encode())
