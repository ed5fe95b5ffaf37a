"""Decoding of message bodies, and finding the messages that cannot be decoded. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import pyarrow as pa

M = TypeVar("M")

#: The type of the option ``value_as``: ``json`` is text that was checked to be JSON.
ValueAs = Literal["bytes", "text", "json"]


def decode(values: Sequence[bytes | None], value_as: ValueAs) -> pa.Array:
    """Return the bodies of messages as an Arrow array of bytes, or of text.

    Raises:
        ValueError: a body is not UTF-8, or not JSON.
    """
    if value_as == "json":
        for value in values:
            if value is not None:
                check_json(value)
    encoded = pa.array(values, pa.binary())
    return encoded if value_as == "bytes" else encoded.cast(pa.string())


def check_json(value: bytes | str) -> None:
    """Check that a body is JSON.

    Raises:
        ValueError: it is not, or is nested more deeply than Python's parser permits.
    """
    try:
        json.loads(value)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def readable(
    messages: Sequence[M], table_of: Callable[[Sequence[M]], pa.Table]
) -> tuple[list[pa.Table], dict[int, ValueError]]:
    """Make tables of the messages that can be decoded, in order, and find the others.

    Halves the messages while one of them cannot be decoded, so that a few bad messages cost little.

    Args:
        messages: in the order of delivery.
        table_of: raises ``ValueError`` if one of its messages cannot be decoded.

    Returns:
        The tables, and the error of each other message by its position.
    """
    if not messages:
        return [], {}
    try:
        return [table_of(messages)], {}
    except ValueError as error:
        if len(messages) == 1:
            return [], {0: error}
    half = len(messages) // 2
    first, undecodable = readable(messages[:half], table_of)
    second, others = readable(messages[half:], table_of)
    return first + second, undecodable | {half + position: error for position, error in others.items()}
