"""Options that cannot be used: the message holds the reason, whoever gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from penstock import ReceiverSpec
from penstock.errors import ConfigurationError
from penstock.plugins.specs import read_options


@attrs.frozen
class Checked:
    rate: int = attrs.field(default=1, validator=attrs.validators.gt(0))
    topics: list[str] = attrs.field(factory=list)


@attrs.frozen
class TwoKinds:
    where: int | str = 1


def read(options: type, **given: Any) -> Any:
    return read_options("receiver", ReceiverSpec("net", dict, options), given)


def test_what_a_validator_says_is_in_the_message() -> None:
    with pytest.raises(ConfigurationError, match="'rate' must be > 0: -1"):
        read(Checked, rate="-1")


@attrs.frozen
class Whole:
    rate: float = 1.0

    def __attrs_post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("rate must be above zero")


def test_a_message_ends_with_its_reason_and_names_a_place_only_within_the_options() -> None:
    with pytest.raises(ConfigurationError, match=r"^receiver 'net': rate must be above zero$"):
        read(Whole, rate="-1")
    with pytest.raises(ConfigurationError, match=r" \(option rate\)$"):
        read(Whole, rate="fast")


def test_a_type_that_cannot_be_read_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigurationError, match="net"):
        read(TwoKinds, where="5")


@attrs.frozen
class Many:
    a_list: list[str] = attrs.field(factory=list)
    a_tuple: tuple[str, ...] = ()
    a_set: frozenset[str] = frozenset()
    a_sequence: Sequence[str] = ()
    numbers: tuple[int, ...] = ()
    maybe: list[str] | None = None


@pytest.mark.parametrize("name", ["a_list", "a_tuple", "a_set", "a_sequence", "maybe"])
def test_a_list_in_configuration_is_separated_by_commas_and_not_cut_into_letters(name: str) -> None:
    value = getattr(read(Many, **{name: "alpha, beta"}), name)
    assert sorted(value) == ["alpha", "beta"]


def test_so_is_a_list_of_numbers() -> None:
    assert read(Many, numbers="1, 22").numbers == (1, 22)


@attrs.frozen
class Plain:
    host: str = "localhost"
    port: int = 1
    _names: list[str] = attrs.field(factory=list)


@pytest.mark.parametrize(("name", "value"), [("host", None), ("port", 5.7), ("port", None)])
def test_a_value_of_another_type_is_refused_and_not_bent(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        read(Plain, **{name: value})


def test_a_private_field_is_an_option_like_any_other() -> None:
    assert read(Plain, names="alpha, beta") == Plain(names=["alpha", "beta"])


@attrs.frozen
class Functions:
    keep: Callable[[str], bool] | None = None
    read: Callable[..., object] = print


def test_a_function_is_an_option_like_any_other() -> None:
    assert read(Functions, keep=str.isalpha, read=list) == Functions(str.isalpha, list)
    assert read(Functions) == Functions()


@pytest.mark.parametrize("name", ["keep", "read"])
def test_text_is_no_function(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"is not callable; a function can be given in the program.*{name}"):
        read(Functions, **{name: "len"})
