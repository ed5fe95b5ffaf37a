"""TLS: both sides need a certificate of the configured authority."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attrs import evolve

from penstock.conf import Settings
from penstock.errors import ConfigurationError, WireError
from penstock.receive.messages import StopReceiver
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply
from penstock.wire.token import Tls, Token


@pytest.fixture
def tls(make_tls: Callable[[str], Tls]) -> Tls:
    return make_tls("ours")


@pytest.fixture
def served(tls: Tls) -> Iterator[tuple[Endpoint, Token]]:
    token = Token.generate(tls)
    endpoint = Endpoint("127.0.0.1", token, {StopReceiver: lambda _message: Reply()})
    yield endpoint, token
    endpoint.stop()


def ask(token: Token, port: int) -> Reply:
    client = Client(token.location("127.0.0.1", port), token, 2000, retry=False)
    try:
        return client.ask(StopReceiver("enough"), Reply)
    finally:
        client.close()


def test_both_sides_with_the_same_authority_talk(served: tuple[Endpoint, Token]) -> None:
    endpoint, token = served
    assert token.location("host", 1) == "grpc+tls://host:1"
    assert ask(token, endpoint.port) == Reply()


def test_client_without_tls_gets_no_answer(served: tuple[Endpoint, Token]) -> None:
    endpoint, token = served
    with pytest.raises(WireError):
        ask(Token(token.secret), endpoint.port)


def test_host_of_another_authority_is_refused(served: tuple[Endpoint, Token], make_tls: Callable[[str], Tls]) -> None:
    endpoint, token = served
    with pytest.raises(WireError):
        ask(Token(token.secret, make_tls("theirs")), endpoint.port)


def test_caller_without_a_certificate_is_refused_unless_tls_is_not_mutual(tls: Tls) -> None:
    for mutual in (True, False):
        token = Token.generate(evolve(tls, mutual=mutual))
        endpoint = Endpoint("127.0.0.1", token, {StopReceiver: lambda _message: Reply()})
        caller = Token(token.secret, evolve(tls, mutual=False))
        if mutual:
            with pytest.raises(WireError, match="no answer"):
                ask(caller, endpoint.port)
        else:
            assert ask(caller, endpoint.port) == Reply()
        endpoint.stop()


def conf_of(tls: Tls) -> Settings:
    prefix = "spark.penstock.wire.tls."
    return Settings.parse({prefix + name: getattr(tls, name) for name in ("certificate", "key", "authority")})


def test_files_that_do_not_belong_together_are_refused_before_the_start(
    tls: Tls, make_tls: Callable[[str], Tls]
) -> None:
    theirs = make_tls("theirs")
    with pytest.raises(ConfigurationError, match=r"tls\.certificate='.*' cannot be used with .*: KEY_VALUES_MISMATCH"):
        Tls.of(conf_of(evolve(tls, key=theirs.key)))
    with pytest.raises(
        ConfigurationError, match=r"tls\.authority='.*theirs.*': unable to get local issuer certificate"
    ):
        Tls.of(conf_of(evolve(tls, authority=theirs.authority)))


def test_expired_certificate_is_refused_before_the_start(make_tls: Callable[..., Tls]) -> None:
    old = make_tls("old", datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(ConfigurationError, match=r"tls\.certificate='.*certificate.pem' .*: certificate has expired"):
        Tls.of(conf_of(old))


def test_file_that_a_host_lacks_is_named(tls: Tls) -> None:
    lacking = Token("x", evolve(tls, authority="/no/such.pem"))
    with pytest.raises(ConfigurationError, match=r"'/no/such.pem' cannot be read: No such file .*, on \S+\. Each host"):
        Client("grpc+tls://127.0.0.1:1", lacking, 1000)


def test_configuration_names_all_three_files_or_none(tls: Tls, tmp_path: Path) -> None:
    prefix = "spark.penstock.wire.tls."
    whole = {prefix + "certificate": tls.certificate, prefix + "key": tls.key, prefix + "authority": tls.authority}
    assert Tls.of(Settings.parse({})) is None
    assert Tls.of(Settings.parse(whole)) == tls
    with pytest.raises(ConfigurationError, match=r"spark.penstock.wire.tls.authority not set: TLS needs"):
        Tls.of(Settings.parse({**whole, prefix + "authority": ""}))
    with pytest.raises(ConfigurationError, match=r"tls.key='.*missing.pem' cannot be read: No such file"):
        Tls.of(Settings.parse({**whole, prefix + "key": str(tmp_path / "missing.pem")}))
