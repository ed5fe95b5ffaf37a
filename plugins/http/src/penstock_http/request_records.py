"""The records of a request's body. Pure functions."""

from __future__ import annotations

import json
from typing import Literal

#: Rules for splitting a body: ``auto`` follows the content type.
Split = Literal["body", "lines", "array", "auto"]

_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


def split_body(body: bytes, split: Split, content_type: str) -> list[bytes]:
    """Split a body into records.

    Args:
        body: body of the request, as received.
        split: how.
        content_type: content type of the request, without parameters.

    Returns:
        The whole body, the lines that are not empty, or the elements of a JSON array, each as it is spelled there.

    Raises:
        ValueError: the body should be a JSON array, and is not, or is nested too deeply.
    """
    if split == "auto":
        if content_type in _LINES:
            split = "lines"
        elif content_type == "application/json" and body.lstrip(_SPACE.encode()).startswith(b"["):
            split = "array"
    if split == "lines":
        return [line for line in (line.removesuffix(b"\r") for line in body.split(b"\n")) if line]
    return _elements(body.decode()) if split == "array" else [body]


def _elements(text: str) -> list[bytes]:
    """The elements of a JSON array as slices of its text, because reading and writing a number may change it."""
    position = _after_space(text, 0)
    if text[position : position + 1] != "[":
        raise ValueError("the body is not a JSON array")
    position = _after_space(text, position + 1)
    elements: list[bytes] = []
    while text[position : position + 1] != "]" or elements:
        try:
            _, end = _DECODER.raw_decode(text, position)
        except RecursionError:
            raise ValueError("the JSON array is nested too deeply") from None
        elements.append(text[position:end].encode())
        position = _after_space(text, end)
        separator = text[position : position + 1]
        if separator == "]":
            break
        if separator != ",":
            raise ValueError(f"the JSON array is not valid at character {position}: a comma or a bracket must follow")
        position = _after_space(text, position + 1)
    if _after_space(text, position + 1) != len(text):
        raise ValueError(f"the body has more after the JSON array, from character {position + 1} on")
    return elements


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position
