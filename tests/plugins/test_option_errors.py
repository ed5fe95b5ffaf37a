"""The message about an invalid option has the reason, whichever library gives it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from penstock import ReceiverSpec
from penstock.conf import Settings
from penstock.errors import ConfigurationError


@attrs.frozen
class Checked:
    rate: int = attrs.field(default=1, validator=attrs.validators.gt(0))
    topics: list[str] = attrs.field(factory=list)


@attrs.frozen
class TwoKinds:
    where: int | str = 1


def read(options: type, **values: Any) -> Any:
    return ReceiverSpec("net", dict, options).read_options(values)


def test_message_has_the_validators_reason() -> None:
    with pytest.raises(ConfigurationError, match=r"receiver 'net': 'rate' must be > 0: -1$"):
        read(Checked, rate="-1")


@attrs.frozen
class Whole:
    rate: float = 1.0

    def __attrs_post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("rate must be above zero")


@attrs.frozen
class Bounded:
    port: int = attrs.field(default=1, validator=attrs.validators.and_(attrs.validators.ge(1), attrs.validators.le(9)))
    host: str = attrs.field(default="h", validator=attrs.validators.min_len(1))
    topic: str = attrs.field(default="long", validator=attrs.validators.min_len(3))
    policy: str = attrs.field(default="a", validator=attrs.validators.in_(("a", "b")))
    _secret: str = attrs.field(default="long", repr=False, validator=attrs.validators.in_(("a", "long")))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("port", 0, "'port' must be >= 1: 0"),
        ("port", 10, "'port' must be <= 9: 10"),
        ("host", "", "Length of 'host' must be >= 1: 0"),
        ("topic", "x", "Length of 'topic' must be >= 3: 1"),
        ("policy", "c: d", "'policy' must be in ('a', 'b') (got 'c: d')"),
        ("secret", "xyz", "'secret' must be in ('a', 'long') (got (hidden))"),
    ],
)
def test_message_has_option_value_and_bound(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(Bounded, **{name: value})
    assert str(caught.value) == f"receiver 'net': {message}"


def test_message_has_the_key_of_a_configured_option() -> None:
    key = "spark.penstock.receiver.net.port"
    with pytest.raises(ConfigurationError, match=rf"^receiver 'net': '{re.escape(key)}' must be >= 1: 0$"):
        ReceiverSpec("net", dict, Bounded).read_options({}, Settings.parse({key: "0"}))


def test_message_names_the_option_unless_the_error_is_about_all() -> None:
    with pytest.raises(ConfigurationError, match=r"^receiver 'net': rate must be above zero$"):
        read(Whole, rate="-1")
    with pytest.raises(ConfigurationError, match=r"^receiver 'net': rate='fast' is not a number$"):
        read(Whole, rate="fast")


def test_unsupported_option_type_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="net"):
        read(TwoKinds, where="5")


def _look_up(_options: object, _attribute: object, value: str) -> None:
    {"a": 1}[value]


@attrs.frozen
class LookedUp:
    name: str = attrs.field(default="a", validator=_look_up)


def test_any_error_of_a_validator_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"^receiver 'net': b$"):
        read(LookedUp, name="b")


@attrs.frozen
class Many:
    a_list: list[str] = attrs.field(factory=list)
    a_tuple: tuple[str, ...] = ()
    a_set: frozenset[str] = frozenset()
    a_sequence: Sequence[str] = ()
    numbers: tuple[int, ...] = ()
    maybe: list[str] | None = None


@pytest.mark.parametrize("name", ["a_list", "a_tuple", "a_set", "a_sequence", "maybe"])
def test_text_for_a_list_is_split_at_commas(name: str) -> None:
    value = getattr(read(Many, **{name: "alpha, beta"}), name)
    assert sorted(value) == ["alpha", "beta"]


def test_text_for_a_list_of_numbers_is_split_and_converted() -> None:
    assert read(Many, numbers="1, 22").numbers == (1, 22)


@attrs.frozen
class Plain:
    host: str = "localhost"
    port: int = 1
    _names: list[str] = attrs.field(factory=list)


@pytest.mark.parametrize(("name", "value"), [("host", None), ("port", 5.7), ("port", None)])
def test_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        read(Plain, **{name: value})


def test_private_field_is_an_option_under_its_alias() -> None:
    assert read(Plain, names="alpha, beta") == Plain(names=["alpha", "beta"])


@attrs.frozen
class Functions:
    keep: Callable[[str], bool] | None = None
    read: Callable[..., object] = print


def test_function_is_a_valid_option() -> None:
    assert read(Functions, keep=str.isalpha, read=list) == Functions(str.isalpha, list)
    assert read(Functions) == Functions()


@pytest.mark.parametrize("name", ["keep", "read"])
def test_text_is_refused_for_a_function(name: str) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"{name}='len' is not callable; a function can be given in the program"
    ):
        read(Functions, **{name: "len"})


@attrs.frozen
class Secrets:
    pins: list[int] = attrs.field(factory=list, repr=False)
    phrase: str = attrs.field(default="", repr=False)
    code: int = attrs.field(default=1000, repr=False, validator=attrs.validators.ge(1000))

    def __attrs_post_init__(self) -> None:
        if len(self.phrase) == 7:
            raise ValueError(f"phrase={self.phrase!r}: {self.phrase} has 7 letters")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pins": "1234, 56x8"}, "pins=(hidden): (hidden) is not a whole number"),
        ({"pins": ["1234", "56x"]}, "pins=(hidden): (hidden) is not a whole number"),
        ({"phrase": "swordfi"}, "phrase=(hidden): (hidden) has 7 letters"),
        ({"code": 123}, "'code' must be >= 1000: (hidden)"),
        ({"code": -1}, "'code' must be >= 1000: (hidden)"),
    ],
)
def test_message_has_no_part_of_a_secret(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(Secrets, **given)
    assert str(caught.value) == f"receiver 'net': {message}"


def test_message_shortens_a_long_value() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(Checked, rate="9" * 3000 + "x")
    assert str(caught.value) == f"receiver 'net': rate='{'9' * 96}... is not a whole number"
