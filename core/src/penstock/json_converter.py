"""The strict converter between attrs classes and JSON values: messages, checkpoints, saved states.

It converts nothing silently: a value of another type and an unknown attribute are errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin

import cattrs
from attrs import has
from cattrs.gen import make_dict_structure_fn

from penstock.errors import summary_of

T = TypeVar("T")


class StructureError(ValueError):
    """A JSON value does not fit a class. The message may contain parts of the value."""


def structure(value: Any, kind: type[T]) -> T:
    """Convert a JSON value into an instance of a class.

    Raises:
        StructureError: the value does not fit.
    """
    try:
        return _converter.structure(value, kind)
    # A validator of the class may raise anything.
    except Exception as error:
        raise StructureError(summary_of(error)) from error


def unstructure(instance: object) -> Any:
    """Convert an instance into JSON values."""
    return _converter.unstructure(instance)


def _exactly(value: Any, kind: type[Any]) -> Any:
    """Structure a primitive without cattrs' conversions between numbers and text."""
    if type(value) is kind or (kind is float and type(value) is int):
        return kind(value)
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def _from_object(kind: type[Any]) -> Callable[[Any, Any], Any]:
    """Structure an attrs class from a JSON object only: cattrs would index lists and text as well."""
    structure_fields = make_dict_structure_fn(kind, _converter, _cattrs_forbid_extra_keys=True)
    return lambda value, _kind: structure_fields(_exactly(value, dict), _kind)


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _from_list(value: Any, kind: Any) -> list[Any]:
    (item,) = get_args(kind)
    return [_converter.structure(element, item) for element in _exactly(value, list)]


def _has_integer_keys(kind: Any) -> bool:
    return get_origin(kind) is dict and get_args(kind)[0] is int


def _from_integer_keys(value: Any, kind: Any) -> dict[int, Any]:
    """JSON has text keys only."""
    item = get_args(kind)[1]
    return {int(key): _converter.structure(element, item) for key, element in _exactly(value, dict).items()}


_converter = cattrs.Converter(detailed_validation=False)
for _primitive in (str, int, float, bool):
    _converter.register_structure_hook(_primitive, _exactly)
_converter.register_structure_hook_factory(has, _from_object)
_converter.register_structure_hook_func(_is_list, _from_list)
_converter.register_structure_hook_func(_has_integer_keys, _from_integer_keys)
