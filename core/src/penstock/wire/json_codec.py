"""The JSON codec of messages: attrs classes to bytes, and bytes to an instance of an expected class or an error."""

from __future__ import annotations

import json
from typing import TypeVar

from attrs import frozen

from penstock.errors import WireError
from penstock.json_converter import structure, unstructure

M = TypeVar("M")

#: The answer for an unknown ticket.
NOT_FOUND = b"not found"


class StreamNotFoundError(WireError):
    """An endpoint does not have the stream that a ticket names."""


@frozen
class Reply:
    """The answer to a message without a reply class of its own; ``reason`` says why it was not accepted."""

    accepted: bool = True
    reason: str = ""


def to_json(message: object) -> bytes:
    """Encode a message."""
    return json.dumps(unstructure(message), separators=(",", ":")).encode()


def from_json(kind: type[M], body: bytes) -> M:
    """Decode a message of a known class; raises ``WireError`` unless the body is JSON with exactly its attributes."""
    try:
        return structure(json.loads(body), kind)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a {kind.__name__} message: {type(error).__name__}") from None
