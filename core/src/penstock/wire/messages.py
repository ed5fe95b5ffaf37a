"""Messages as JSON: attrs classes written to bytes, and bytes structured into one of them or refused. Never pickled.

Each protocol has its message classes beside it. A message may arrive twice; handlers must tolerate that.
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

#: What comes with the refusal of a block that an endpoint does not have, and with no other.
BLOCK_GONE = b"gone"


@frozen
class Reply:
    """The answer to any message: taken or not, and why not."""

    accepted: bool = True
    reason: str = ""


def _exactly(value: Any, kind: type[Any]) -> Any:
    """Structure a primitive: cattrs would make text of a number and a number of text."""
    if type(value) is kind or (kind is float and type(value) is int):
        return kind(value)
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def _from_object(kind: type[Any]) -> Callable[[Any, Any], Any]:
    """Structure a message or a part of it: of a JSON object, nothing else that happens to work like one."""
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
    return [_converter.structure(each, item) for each in value]


_converter = cattrs.Converter()
for _primitive in (str, int, float, bool):
    _converter.register_structure_hook(_primitive, _exactly)
_converter.register_structure_hook_factory(has, _from_object)
_converter.register_structure_hook_func(_is_list, _from_list)


def to_json(message: object) -> bytes:
    """Write a message."""
    return json.dumps(_converter.unstructure(message), separators=(",", ":")).encode()


def from_json(kind: type[M], body: bytes) -> M:
    """Read a message of a known kind.

    Raises:
        WireError: it is not JSON, or not of that shape.
    """
    try:
        return _converter.structure(json.loads(body), kind)
    except (ValueError, TypeError, KeyError, RecursionError, cattrs.BaseValidationError) as error:
        raise WireError(f"not a {kind.__name__} message: {type(error).__name__}") from None
