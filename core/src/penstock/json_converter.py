"""The strict converter between attrs classes and JSON values: messages, checkpoints, saved states, event logs.

It converts nothing silently: a value of another type and an unknown attribute are errors. The
converter of configuration values is this one with hooks for text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_origin

import cattrs
from attrs import has
from cattrs.gen import make_dict_structure_fn

from penstock.errors import summary_of

T = TypeVar("T")


class StructureError(ValueError):
    """A JSON value does not fit a class. The message may contain parts of the value."""


def structure(value: Any, kind: type[T], *, is_open: bool = False) -> T:
    """Convert a JSON value into an instance of a class; ``is_open`` ignores attributes that a later version added.

    Raises:
        StructureError: the value does not fit.
    """
    try:
        return (_open_converter if is_open else _converter).structure(value, kind)
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


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _has_integer_keys(kind: Any) -> bool:
    return get_origin(kind) in (dict, Mapping) and get_args(kind)[0] is int


def strict_converter(*, is_open: bool = False) -> cattrs.Converter:
    """A new converter of JSON values, to which the caller may add hooks."""
    converter = cattrs.Converter(detailed_validation=False)

    def from_object(kind: type[Any]) -> Callable[[Any, Any], Any]:
        """Structure an attrs class from a JSON object only: cattrs would index lists and text as well."""
        structure_fields = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=not is_open)
        return lambda value, _kind: structure_fields(_exactly(value, dict), _kind)

    def from_list(value: Any, kind: Any) -> list[Any]:
        (item,) = get_args(kind)
        elements = value if isinstance(value, tuple) else _exactly(value, list)
        return [converter.structure(element, item) for element in elements]

    def from_integer_keys(value: Any, kind: Any) -> dict[int, Any]:
        """JSON has text keys only."""
        item = get_args(kind)[1]
        return {int(key): converter.structure(element, item) for key, element in _exactly(value, dict).items()}

    for primitive in (str, int, float, bool):
        converter.register_structure_hook(primitive, _exactly)
    converter.register_structure_hook_factory(has, from_object)
    converter.register_structure_hook_func(_is_list, from_list)
    converter.register_structure_hook_func(_has_integer_keys, from_integer_keys)
    return converter


_converter = strict_converter()
_open_converter = strict_converter(is_open=True)
