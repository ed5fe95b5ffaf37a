"""JSON of another type than expected is refused instead of converted."""

import pytest

from penstock.errors import WireError
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    Registered,
    RegisterReceiver,
    UpdateRateLimit,
)
from penstock.wire.json_codec import Reply, from_json

KINDS = [AddBlocks, CleanUpBlocks, Registered, RegisterReceiver, Reply, UpdateRateLimit]


@pytest.mark.parametrize("body", [b"[]", b"[[]]", b"1", b'"text"', b"null", b"true"])
@pytest.mark.parametrize("kind", KINDS)
def test_json_other_than_an_object_is_refused(kind: type, body: bytes) -> None:
    with pytest.raises(WireError, match=f"not a {kind.__name__} message"):
        from_json(kind, body)


def test_json_other_than_an_object_is_refused_inside_a_message() -> None:
    for block in (b"[]", b"1", b'"text"'):
        with pytest.raises(WireError, match="not a AddBlocks message"):
            from_json(AddBlocks, b'{"stream_id": 1, "epoch": 1, "blocks": [' + block + b"]}")
    for desired in (b"[5, 1]", b"1", b'"text"'):
        with pytest.raises(WireError, match="not a Registered message"):
            from_json(Registered, b'{"accepted": true, "desired": ' + desired + b"}")


@pytest.mark.parametrize("ids", [b'"abc"', b'{"a": 1}', b'""', b"{}"])
def test_json_other_than_a_list_is_refused_for_a_list(ids: bytes) -> None:
    with pytest.raises(WireError, match="not a CleanUpBlocks message"):
        from_json(CleanUpBlocks, b'{"block_ids": ' + ids + b"}")
