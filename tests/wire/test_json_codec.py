"""The JSON codec: messages survive a round trip, other JSON is refused."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock import StoredBlock
from penstock.errors import WireError
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReportError,
    StopReceiver,
    UpdateRateLimit,
)
from penstock.wire.json_codec import Reply, from_json, to_json

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
NUMBER = st.integers(-(2**70), 2**70)
RATE = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
BLOCK = st.builds(StoredBlock, TEXT, NUMBER, NUMBER, NUMBER, TEXT, st.none() | st.dictionaries(TEXT, JSON, max_size=3))
MESSAGE = st.one_of(
    st.builds(Reply, st.booleans(), TEXT),
    st.builds(RegisterReceiver, NUMBER, NUMBER, TEXT, NUMBER),
    st.builds(Registered, st.booleans(), TEXT, st.none() | st.builds(UpdateRateLimit, st.none() | RATE, NUMBER)),
    st.builds(AddBlocks, NUMBER, NUMBER, st.lists(BLOCK, max_size=3)),
    st.builds(ReportError, NUMBER, NUMBER, TEXT, TEXT),
    st.builds(DeregisterReceiver, NUMBER, NUMBER, TEXT, TEXT),
    st.builds(StopReceiver, TEXT),
    st.builds(UpdateRateLimit, st.none() | RATE, NUMBER, st.booleans()),
    st.builds(CleanUpBlocks, st.lists(TEXT, max_size=3)),
)


@given(MESSAGE)
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_decoded_records_equal_the_encoded_ones(message: object) -> None:
    body = to_json(message)
    back = from_json(type(message), body)
    assert back == message
    assert to_json(back) == body


def test_integer_is_accepted_as_a_rate() -> None:
    message = from_json(UpdateRateLimit, b'{"rate": 5, "number": 1}')
    assert (message, type(message.rate)) == (UpdateRateLimit(5.0, 1), float)


def test_attribute_with_a_default_may_be_missing() -> None:
    assert from_json(Reply, b"{}") == Reply(True, "")
    assert from_json(Registered, b'{"accepted": false}') == Registered(False, "", None)


KINDS = [AddBlocks, CleanUpBlocks, Registered, RegisterReceiver, Reply, UpdateRateLimit]
GOOD: dict[str, Any] = {"stream_id": 1, "epoch": 2, "message": "m", "error": "e"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe\x00",
        b"not json",
        b"{",
        b"[" * 100_000,
        pickle.dumps(GOOD),
        b"{}",
        json.dumps(GOOD | {"more": 1}).encode(),
        json.dumps({key: GOOD[key] for key in ("stream_id", "epoch", "message")}).encode(),
        json.dumps(GOOD | {"stream_id": "1"}).encode(),
        json.dumps(GOOD | {"stream_id": 1.0}).encode(),
        json.dumps(GOOD | {"stream_id": True}).encode(),
        json.dumps(GOOD | {"stream_id": None}).encode(),
        json.dumps(GOOD | {"message": 5}).encode(),
        json.dumps(GOOD | {"message": ["m"]}).encode(),
        json.dumps(GOOD | {"error": {}}).encode(),
        json.dumps(GOOD).encode() + b"{}",
    ],
    ids=range(17),
)
def test_message_of_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(WireError, match="not a ReportError message"):
        from_json(ReportError, body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *((kind, body) for kind in KINDS for body in (b"[]", b"[[]]", b"1", b'"text"', b"null", b"true")),
        (UpdateRateLimit, b'{"rate": "5"}'),
        (UpdateRateLimit, b'{"rate": true}'),
        (UpdateRateLimit, b'{"rate": null, "number": null}'),
        (UpdateRateLimit, b'{"rate": 5, "number": 1, "paused": 1}'),
        (UpdateRateLimit, b'{"rate": ' + b"9" * 400 + b"}"),
        (UpdateRateLimit, b'{"rate": ' + b"9" * 5000 + b"}"),
        (Registered, b'{"accepted": 1}'),
        (Registered, b'{"accepted": true, "desired": {"rate": "5", "number": 1}}'),
        (CleanUpBlocks, b'{"block_ids": [1]}'),
        (AddBlocks, b'{"stream_id": 1, "epoch": 1, "blocks": [{}]}'),
        (AddBlocks, b'{"stream_id": 1, "epoch": 1, "blocks": [null]}'),
        (AddBlocks, b'{"stream_id": 1, "epoch": 1, "blocks": null}'),
        *((AddBlocks, b'{"stream_id": 1, "epoch": 1, "blocks": [' + block + b"]}") for block in (b"[]", b"1", b'"a"')),
        *((Registered, b'{"accepted": true, "desired": ' + desired + b"}") for desired in (b"[5, 1]", b"1", b'"a"')),
        *((CleanUpBlocks, b'{"block_ids": ' + ids + b"}") for ids in (b'"abc"', b'{"a": 1}', b'""', b"{}")),
    ],
)
def test_a_message_of_any_kind_with_a_wrong_attribute_is_refused(kind: type, body: bytes) -> None:
    with pytest.raises(WireError, match=f"not a {kind.__name__} message"):
        from_json(kind, body)


def test_a_refusal_does_not_repeat_what_was_sent() -> None:
    with pytest.raises(WireError) as caught:
        from_json(UpdateRateLimit, b'{"rate": "a secret that somebody sent here"}')
    assert "secret" not in str(caught.value)


def test_metadata_that_is_not_json_cannot_be_sent() -> None:
    with pytest.raises(TypeError):
        to_json(AddBlocks(0, 1, [StoredBlock("b", 0, 1, 1, "/p", {"at": object()})]))
