"""The JSON codec of messages: attrs classes to bytes, and bytes to an instance of an expected class or an error.

Each protocol keeps its message classes next to its code. Nothing is ever unpickled. A message may arrive twice, so
handlers must be idempotent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin

import cattrs
from attrs import frozen, has
from cattrs.gen import make_dict_structure_fn

from penstock.errors import WireError

M = TypeVar("M")

#: Extra information that only the error for an unknown ticket carries.
NOT_FOUND = b"not found"


class StreamNotFoundError(WireError):
    """An endpoint does not have the stream that a ticket names."""


@frozen
class Reply:
    """The answer to a message without a reply class of its own.

    Attributes:
        accepted: whether the message took effect.
        reason: why it did not; empty if accepted.
    """

    accepted: bool = True
    reason: str = ""


def _exactly(value: Any, kind: type[Any]) -> Any:
    """Structure a primitive without cattrs' conversions between numbers and text."""
    if type(value) is kind or (kind is float and type(value) is int):
        return kind(value)
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def _from_object(kind: type[Any]) -> Callable[[Any, Any], Any]:
    """Structure an attrs class from a JSON object only: cattrs would index lists and text as well."""
    structure = make_dict_structure_fn(kind, _converter, _cattrs_forbid_extra_keys=True)

    def from_object(value: Any, _kind: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"expected an object, got {type(value).__name__}")
        return structure(value, _kind)

    return from_object


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _from_list(value: Any, kind: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"expected a list, got {type(value).__name__}")
    (item,) = get_args(kind)
    return [_converter.structure(element, item) for element in value]


_converter = cattrs.Converter()
for _primitive in (str, int, float, bool):
    _converter.register_structure_hook(_primitive, _exactly)
_converter.register_structure_hook_factory(has, _from_object)
_converter.register_structure_hook_func(_is_list, _from_list)


def to_json(message: object) -> bytes:
    """Encode a message."""
    return json.dumps(_converter.unstructure(message), separators=(",", ":")).encode()


def from_json(kind: type[M], body: bytes) -> M:
    """Decode a message of a known class.

    Raises:
        WireError: the body is not JSON, or lacks an attribute, has an unknown one or one of a wrong type.
    """
    try:
        return _converter.structure(json.loads(body), kind)
    except (ValueError, TypeError, KeyError, RecursionError, cattrs.BaseValidationError) as error:
        raise WireError(f"not a {kind.__name__} message: {type(error).__name__}") from None
