"""Options that cannot be used: the message holds the reason, whoever gives it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from penstock import ReceiverSpec
from penstock.errors import ConfigurationError
from penstock.specs import read_options


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


def test_a_type_that_cannot_be_read_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigurationError, match="net"):
        read(TwoKinds, where="5")


def test_a_list_in_configuration_is_separated_by_commas_and_not_cut_into_letters() -> None:
    assert read(Checked, topics="alpha, beta").topics == ["alpha", "beta"]
