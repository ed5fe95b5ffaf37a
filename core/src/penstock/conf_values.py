"""Option types: how text becomes a typed value, for configuration keys and for the options of plugins.

Owns Spark's spellings of times and sizes, and the description of a key. Knows no key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, MutableSequence, MutableSet, Sequence, Set
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from zoneinfo import ZoneInfo

from attrs import field, frozen

from penstock.errors import ConfigurationError, shortened, shown
from penstock.json_converter import strict_converter

T = TypeVar("T")
N = TypeVar("N", int, float)

_MS_PER_UNIT = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES_PER_UNIT = {"b": 1} | {
    prefix + suffix: 1 << 10 * power for power, prefix in enumerate("kmgtp", 1) for suffix in ("", "b")
}
_LARGEST = 1 << 63
_SHORTEST_SECRET = 4
_QUANTITY = re.compile(r"\s*(-?\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_COLLECTIONS = (list, tuple, set, frozenset, Sequence, MutableSequence, Set, MutableSet)
_TYPE_NAMES = {bool: "boolean", str: "text", int: "integer", float: "number"}
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class InvalidValueError(ValueError):
    """A value is not valid; the reason continues a sentence that begins with the value."""

    def __init__(self, value: object, reason: str) -> None:
        super().__init__(f"{shown(value)} {reason}")
        self.value = value
        self.reason = reason


@frozen
class Key:
    """A configuration key: its full name, default in Spark's spelling, heading in the documentation, help and type.

    ``falls_back_to`` is the attribute of :class:`Settings` whose value applies when this key is not set;
    ``in_production`` is the default in the profile ``production``, ``None`` for the same.
    """

    name: str
    default: str
    group: str
    help: str
    falls_back_to: str | None = None
    in_production: str | None = None
    type: str = ""


def key_field(group: str, name: str, default: str, help: str, **more: Any) -> Any:
    """The attrs field of a key, which is in its metadata."""
    return field(metadata={"key": Key(name, default, group, help, **more)})


def _quantity(text: str, units: Mapping[str, float], default_unit: str) -> int:
    match = _QUANTITY.fullmatch(text)
    unit = (match[2].lower() or default_unit) if match else ""
    if not match or unit not in units:
        raise InvalidValueError(text, f"is not a whole number with one of the units {', '.join(units)}")
    quantity = int(match[1])
    if abs(quantity) > _LARGEST:
        raise InvalidValueError(text, "is too large")
    return int(quantity * units[unit])


def parse_duration_ms(text: str) -> int:
    """Parse a Spark time string (``200ms``, ``2s``, ``1h``; a bare number is milliseconds)."""
    return _quantity(text, _MS_PER_UNIT, "ms")


def parse_size_bytes(text: str) -> int:
    """Parse a Spark size string (``64m``, ``1g``; a bare number is bytes)."""
    return _quantity(text, _BYTES_PER_UNIT, "b")


def _parser(
    parse: Callable[[str], T], reason: str, is_valid: Callable[[T], bool] = lambda _value: True
) -> Callable[[str], T]:
    """A parser that refuses text with this reason: when ``parse`` fails, or when its value is not valid."""

    def parse_valid(text: str) -> T:
        try:
            value = parse(text)
        except InvalidValueError:
            raise
        except (ValueError, LookupError, OSError):
            raise InvalidValueError(text, reason) from None
        if not is_valid(value):
            raise InvalidValueError(text, reason)
        return value

    return parse_valid


_parse_int = _parser(int, "is not a whole number")
_parse_float = _parser(float, "is not a number")


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_rate_per_s(text: str) -> float | None:
    """Parse a rate in records/s. Zero and below mean no limit, as in Spark: ``None``."""
    rate = _parser(_parse_float, "is not a number", lambda value: not math.isnan(value))(text)
    return rate if 0 < rate < math.inf else None


_parse_share = _parser(
    lambda text: float(text.strip()[:-1]) / 100, "is not between 0% and 100%", lambda share: 0 <= share <= 1
)


@frozen
class SizeLimit:
    """A limit in bytes or as a share of a disk; with neither, no limit."""

    num_bytes: int | None = None
    share: float | None = None

    def of(self, disk_bytes: int) -> int | None:
        """The limit in bytes on a disk of this size; ``None`` for no limit, or when the size is unknown (0)."""
        if self.share is not None:
            return int(disk_bytes * self.share) if disk_bytes else None
        return self.num_bytes


def parse_size_limit(text: str) -> SizeLimit:
    """Parse a Spark size string or a percentage of a disk; 0 of either means no limit."""
    if text.strip().endswith("%"):
        return SizeLimit(share=_parse_share(text) or None)
    return SizeLimit(_not_negative(parse_size_bytes)(text) or None)


def _not_negative(parse: Callable[[str], int]) -> Callable[[str], int]:
    return _parser(parse, "is negative", lambda value: value >= 0)


def _positive(parse: Callable[[str], N]) -> Callable[[str], N]:
    return _parser(parse, "is not greater than zero", lambda value: value > 0)


@frozen
class TextForm:
    """The notation of an option type's values, for ``Annotated``: a name for people, and a parser of text.

    The parser raises ValueError with a reason that shows the text.
    """

    name: str
    parse: Callable[[str], Any]


DurationMs = Annotated[int, TextForm("time", _not_negative(parse_duration_ms))]
PositiveDurationMs = Annotated[int, TextForm("time > 0", _positive(parse_duration_ms))]
#: A bare number is seconds, as in Spark's keys that count seconds.
PositiveDurationS = Annotated[
    float, TextForm("time > 0", _positive(lambda text: _quantity(text, _MS_PER_UNIT, "s") / 1000))
]
PositiveBytes = Annotated[int, TextForm("size > 0", _positive(parse_size_bytes))]
Count = Annotated[int, TextForm("integer >= 0", _not_negative(_parse_int))]
PositiveCount = Annotated[int, TextForm("integer > 0", _positive(_parse_int))]
#: A port that needs no privilege; 0 lets the system choose.
Port = Annotated[
    int,
    TextForm(
        "port",
        _parser(_parse_int, "is neither 0 nor between 1024 and 65535", lambda port: port == 0 or 1024 <= port <= 65535),
    ),
]
RatePerS = Annotated[float | None, TextForm("records/s", _parse_rate_per_s)]
Names = Annotated[tuple[str, ...], TextForm("list", _split)]
LogLevel = Annotated[
    str,
    TextForm(
        "log level",
        _parser(lambda text: text.strip().upper(), f"is not one of {', '.join(_LEVELS)}", _LEVELS.__contains__),
    ),
]
TimeZone = Annotated[
    ZoneInfo | None,
    TextForm("time zone", _parser(lambda text: ZoneInfo(text) if text else None, "is not the name of a time zone")),
]
DiskLimit = Annotated[SizeLimit, TextForm("size or % of disk", parse_size_limit)]


def type_name(option_type: Any) -> str:
    """Return the name of an option type for the type column of a table."""
    if form := _text_form(option_type):
        return form.name
    if _is_choice(option_type):
        return " or ".join(f"`{choice}`" for choice in get_args(option_type))
    if _is_callable(option_type):
        return "function"
    if get_origin(option_type) in (Union, UnionType):
        return " or ".join(type_name(member) for member in get_args(option_type) if member is not NoneType)
    if _holds_several(option_type):
        return f"list of {type_name(get_args(option_type)[0])}"
    return _TYPE_NAMES.get(option_type) or str(getattr(option_type, "__name__", option_type))


def _holds_several(option_type: Any) -> bool:
    """Whether values are lists, sets or tuples, which text separates by commas."""
    return get_origin(option_type) in _COLLECTIONS


def refused(name: str, value: object, error: Exception, *, is_quoted: bool = False, is_hidden: bool = False) -> str:
    """Return the message for an invalid value: ``option=value is not a number``.

    ``is_quoted`` shows the value as in a program, not as in a properties file; ``is_hidden`` shows no part of a secret.
    """
    text = shown(value) if is_quoted else shortened(str(value))
    if is_hidden:
        text = "(hidden)"
    if isinstance(error, InvalidValueError) and error.value == value:
        return f"{name}={text} {error.reason}"
    return f"{name}={text}: {without(value, str(error)) if is_hidden else error}"


def without(secret: object, text: str) -> str:
    """Remove a secret value from a text, and the items of a secret list."""
    items = (item.strip(" []()'\"") for item in str(secret).split(","))
    for part in sorted({str(secret), *items} - {""}, key=len, reverse=True):
        text = text.replace(repr(part), "(hidden)")
        # A shorter one may be part of any word or number.
        pattern = re.escape(part) if len(part) >= _SHORTEST_SECRET else rf"(?<!\w){re.escape(part)}(?!\w)"
        text = re.sub(pattern, "(hidden)", text)
    return text


def _text_form(option_type: Any) -> TextForm | None:
    return next((part for part in getattr(option_type, "__metadata__", ()) if isinstance(part, TextForm)), None)


def _to_text_form(value: Any, option_type: Any) -> Any:
    form = _text_form(option_type)
    assert form is not None
    return form.parse(value if isinstance(value, str) else str(value))


def _to_bool(value: Any, _type: Any) -> bool:
    text = str(value).strip().lower() if isinstance(value, bool | str) else ""
    if text not in {"true", "false"}:
        raise InvalidValueError(value, "is neither true nor false")
    return text == "true"


def _to_choice(value: Any, option_type: Any) -> Any:
    choice = value.strip() if isinstance(value, str) else value
    if choice not in get_args(option_type):
        raise InvalidValueError(value, f"is not one of {', '.join(map(str, get_args(option_type)))}")
    return choice


def _to_number(value: Any, parse: Callable[[str], Any], *types: type) -> Any:
    """Parse text; refuse values that a constructor would convert silently, such as a fraction as an integer."""
    if isinstance(value, str):
        return parse(value)
    if type(value) not in types:
        raise InvalidValueError(value, f"is not of type {types[0].__name__}")
    return value


def _to_callable(value: Any, _type: Any) -> Any:
    if not callable(value):
        raise InvalidValueError(value, "is not callable; a function can be given in the program only")
    return value


def _is_choice(option_type: Any) -> bool:
    return get_origin(option_type) is Literal


def _is_callable(option_type: Any) -> bool:
    return option_type is Callable or get_origin(option_type) is Callable


# Structures configuration values and plugin options: values of programs as strictly as JSON, and text.
_converter = strict_converter()
_converter.register_structure_hook(bool, _to_bool)
_converter.register_structure_hook(int, lambda value, _type: _to_number(value, _parse_int, int))
_converter.register_structure_hook(float, lambda value, _type: float(_to_number(value, _parse_float, float, int)))
_converter.register_structure_hook_func(_is_callable, _to_callable)
_converter.register_structure_hook_func(_is_choice, _to_choice)
_converter.register_structure_hook_func(lambda kind: _text_form(kind) is not None, _to_text_form)


def structure_option(value: Any, option_type: Any) -> Any:
    """Convert an option's value, from text or from a value of a program; text for several values is split at commas.

    Raises:
        ValueError: the value is not valid; the message says why.
        cattrs.StructureHandlerNotFoundError: the type is not supported.
    """
    members = get_args(option_type) if get_origin(option_type) in (Union, UnionType) else (option_type,)
    if isinstance(value, str) and any(map(_holds_several, members)):
        value = _split(value)
    return _converter.structure(value, option_type)


def value_of(name: str, text: str, kind: Any, help: str) -> Any:
    """Convert the text of a configuration key.

    Raises:
        ConfigurationError: it is not valid; names the key, the value, the reason and what the key does.
    """
    try:
        return _converter.structure(text, kind)
    except ValueError as error:
        raise ConfigurationError(f"{refused(name, text, error)}. {help}") from None
