"""Options that receivers share: how they are read, refused and described."""

from __future__ import annotations

from typing import Literal

import pytest
from attrs import field, frozen

from penstock import ConfigurationError
from penstock.spi import Option, structure_options
from penstock_brokers import DeadLetter, DeadLetterOptions, TlsOptions, columns_option


@frozen(kw_only=True)
class Options(TlsOptions, DeadLetterOptions):
    server: str = field()
    columns: tuple[Literal["key", "value"], ...] = columns_option(("value",), {"key": "the key", "value": "the body"})


def read(**values: object) -> Options:
    return structure_options("receiver 'x'", Options, {"server": "here"} | values)


def test_required_option_follows_the_shared_ones() -> None:
    assert read() == Options(server="here")
    assert read(tls="true", dead_letter="d").tls
    with pytest.raises(ConfigurationError, match="needs the option 'server'"):
        structure_options("receiver 'x'", Options, {})


def test_columns_are_read_from_text_and_from_programs() -> None:
    assert read(columns="key, value").columns == read(columns=["key", "value"]).columns == ("key", "value")
    assert read().columns == ("value",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [("key,what", "'what' is not one of key, value"), ("", "at least one column"), ("key,key", "names 'key' twice")],
)
def test_wrong_columns_are_refused(columns: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(columns=columns)


def test_every_option_has_help() -> None:
    described = {option.name: option.help for option in Option.of(Options)}
    assert all(help for name, help in described.items() if name != "server")
    assert "`key`: the key; `value`: the body" in described["columns"]


def test_message_is_given_up_only_with_a_destination() -> None:
    assert not read(max_deliveries=3).is_exhausted(100)
    options = read(dead_letter="d", max_deliveries=3)
    assert [options.is_exhausted(count) for count in (1, 3, 4)] == [False, False, True]
    with pytest.raises(ConfigurationError, match="max_deliveries"):
        read(max_deliveries=0)


def test_headers_of_a_dead_letter_are_single_lines_of_bounded_length() -> None:
    letter = DeadLetter("undecodable", "not UTF-8\r\npenstock-reason: forged\n" + "x" * 1000, 3, "queue/7")
    headers = letter.headers()
    assert list(headers) == ["penstock-reason", "penstock-error", "penstock-deliveries", "penstock-origin"]
    assert not any("\n" in text or "\r" in text for text in headers.values())
    assert headers["penstock-error"].startswith("not UTF-8 penstock-reason: forged xx")
    assert len(headers["penstock-error"]) == 500
    assert "penstock-deliveries" not in DeadLetter("deliveries", "", None, "o").headers()
