"""Options: what they become for the client, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock_brokers import Secret
from penstock_kafka import KafkaOptions, client_configuration
from penstock_kafka.options import parse_start

GIVEN: dict[str, Any] = {"bootstrap_servers": "h:9092", "topics": ("t",), "group_id": "g"}


def test_login_and_tls_become_settings_of_the_client(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    options = KafkaOptions(
        **GIVEN,
        tls=True,
        tls_ca="/ca.pem",
        tls_certificate="/client.pem",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_user="u",
        sasl_password=Secret(f"file:{secret}"),
        settings={"client.rack": "a"},
    )
    assert "hunter2" not in repr(options)
    settings = client_configuration.consumer(options)
    assert settings["security.protocol"] == "sasl_ssl"
    assert settings["sasl.password"] == "hunter2"
    assert settings["ssl.key.location"] == settings["ssl.certificate.location"] == "/client.pem"
    assert (settings["client.rack"], settings["enable.auto.commit"]) == ("a", False)
    assert client_configuration.is_incremental(settings)


@pytest.mark.parametrize(
    ("settings", "incremental"),
    [({"group.protocol": "consumer"}, True), ({"partition.assignment.strategy": "range"}, False), ({}, True)],
)
def test_protocol_of_the_group_decides_how_partitions_are_assigned(settings: dict[str, str], incremental: bool) -> None:
    configured = client_configuration.consumer(KafkaOptions(**GIVEN, settings=settings))
    assert client_configuration.is_incremental(configured) is incremental


@pytest.mark.parametrize("name", ["sasl.oauthbearer.client.secret", "ssl.key.pem", "ssl.keystore.password"])
def test_secret_among_the_settings_is_refused_without_repeating_it(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is a secret") as raised:
        KafkaOptions(**GIVEN, settings={name: "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_setting_of_the_receiver_is_refused_with_its_option() -> None:
    with pytest.raises(ValueError, match=r"auto\.offset\.reset is set by the receiver: use the option start"):
        KafkaOptions(**GIVEN, settings={"auto.offset.reset": "latest"})


def test_start_is_a_word_a_time_or_offsets() -> None:
    assert parse_start("latest") == "latest"
    assert parse_start("2026-11-24T12:00:00") == datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert parse_start('{"t": {"0": 5}}') == {"t": {"0": 5}}
    for text in ("tomorrow", '{"t": 5}', '{"t": {"0": "x"}}'):
        with pytest.raises(ValueError, match="start"):
            parse_start(text)
