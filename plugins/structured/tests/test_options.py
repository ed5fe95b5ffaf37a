"""The options of the source: sorted by owner, checked, and refused with the nearest name."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import attrs
import pytest
from plugins.structured.tests import subscription as subscription_plugin

from penstock import ConfigurationError
from penstock.spi import Plugins, UnknownNameError
from penstock_structured.data_source import PenstockDataSource
from penstock_structured.options import Source, SourceOptions

SOCKET = {"receiver": "socket", "host": "localhost", "port": "9999", "blocks": "/var/lib/q"}


def test_options_are_sorted_by_owner_in_any_case() -> None:
    source = Source.of(
        {
            **SOCKET,
            "maxrowspertrigger": "100",
            "receiver.encoding_errors": "refuse",
            "spark.streaming.blockinterval": "1s",
        }
    )
    assert source.options.maxRowsPerTrigger == 100
    assert source.receiver_options == {"host": "localhost", "port": "9999", "encoding_errors": "refuse"}
    assert source.conf == {"spark.streaming.blockInterval": "1s"}


def test_keys_of_the_receiver_are_known_in_any_case() -> None:
    given = {name: text for name, text in SOCKET.items() if name != "port"}
    source = Source.of({**given, "spark.penstock.receiver.SOCKET.port": "9999"})
    assert source.conf == {"spark.penstock.receiver.socket.port": "9999"}


@pytest.mark.parametrize(("text", "size"), [("500", 500), ("32m", 32 << 20), ("2g", 2 << 30), ("1kb", 1024)])
def test_sizes_have_units(text: str, size: int) -> None:
    assert Source.of({**SOCKET, "partitionBytes": text}).options.partitionBytes == size


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"receiver": "sockt"}, UnknownNameError, r"unknown receiver 'sockt'.*'socket'"),
        ({"prot": "1"}, UnknownNameError, r"unknown option 'prot' of the source with the receiver 'socket'.*'port'"),
        ({"maxRowPerTrigger": "1"}, UnknownNameError, r"Did you mean 'maxRowsPerTrigger'"),
        ({"port": "many"}, ConfigurationError, r"receiver 'socket'.*port"),
        ({"partitionBytes": "much"}, ConfigurationError, r"partitionBytes='much'"),
        ({"maxRowsPerTrigger": "0"}, ConfigurationError, r"maxRowsPerTrigger=0: must be greater than 0"),
        ({"initialRate": "nan"}, ConfigurationError, r"initialRate=nan: must be greater than 0"),
        ({"blocks": "relative/q"}, ConfigurationError, r"blocks='relative/q': must be an absolute path"),
        ({"spark.streaming.blockInterval": "soon"}, ConfigurationError, r"spark\.streaming\.blockInterval"),
        (
            {"spark.streaming.blockIntervall": "1s"},
            ConfigurationError,
            r"Did you mean 'spark\.streaming\.blockInterval'",
        ),
        (
            {"spark.penstock.receiver.socket.prot": "1"},
            ConfigurationError,
            r"mean 'spark\.penstock\.receiver\.socket\.port'",
        ),
        ({"spark.sql.shuffle.partitions": "1"}, ConfigurationError, r"unknown configuration key 'spark\.sql\.shuffle"),
    ],
)
def test_a_wrong_option_is_refused_by_name(change: dict[str, str], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        PenstockDataSource({**SOCKET, **change})


@pytest.mark.parametrize("missing", ["receiver", "blocks", "port"])
def test_a_missing_option_is_named_with_the_call_that_sets_it(missing: str) -> None:
    given = {name: text for name, text in SOCKET.items() if name != missing}
    with pytest.raises(ConfigurationError, match=rf"needs the option '{missing}'"):
        PenstockDataSource(given)


@pytest.fixture
def subscription(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options of a receiver that has ``durable`` and ``address``, as the source has."""
    entry_point = importlib.metadata.EntryPoint("subscription", subscription_plugin.__name__, "penstock")
    monkeypatch.setattr(Plugins, "additional_entry_points", [entry_point])
    return {"receiver": "subscription", "blocks": "/var/lib/q"}


@pytest.mark.parametrize("text", ["true", "my-subscription"])
def test_option_that_source_and_receiver_have_is_named_with_its_prefix(subscription: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        PenstockDataSource({**subscription, "durable": text})
    assert str(refused.value).endswith(
        "durable set options of the source, and the receiver 'subscription' has options of that name: "
        '.option("receiver.durable", …) sets that of the receiver'
    )
    source = Source.of({**subscription, "durable": "false", "receiver.durable": "my-subscription"})
    assert (source.options.durable, source.receiver_options) == (False, {"durable": "my-subscription"})


def test_the_page_has_every_option_with_its_default() -> None:
    page = (Path(__file__).parents[3] / "docs" / "structured-streaming.md").read_text(encoding="utf-8")
    section = page.partition("\n## Options\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in section.splitlines() if row.startswith("|")]
    documented = {name: row[1].strip("`") for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert set(documented) == {field.name for field in attrs.fields(SourceOptions)}
    for name, default in documented.items():
        if default and not default.startswith(("no limit", "(")):
            source = Source.of({**SOCKET, name: default})
            assert getattr(source.options, name) == getattr(SourceOptions("socket", "/blocks"), name), name
