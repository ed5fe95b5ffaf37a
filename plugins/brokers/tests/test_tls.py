"""``TlsOptions``: a context that verifies the server, made of files that are read when the receiver connects."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from penstock import ConfigurationError
from penstock.spi import structure_options
from penstock_brokers import SecretError, TlsOptions


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    client = authority.issue_cert("client@example.org")
    client.private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
    return folder


def options(**values: object) -> TlsOptions:
    return structure_options("receiver 'x'", TlsOptions, values)


def test_no_context_without_tls() -> None:
    assert options().ssl_context() is None


def test_context_verifies_certificate_and_name(files: Path) -> None:
    context = options(tls=True, tls_ca=str(files / "ca.pem"), tls_certificate=str(files / "client.pem")).ssl_context()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tls_ca": "a"}, "tls_ca has no effect without tls=true"),
        ({"tls_certificate": "a"}, "tls_certificate has no effect without tls=true"),
        ({"tls": True, "tls_key": "a"}, "tls_key has no effect without tls_certificate"),
        ({"tls": True, "tls_key_password": "env:A"}, "tls_key_password has no effect without tls_certificate"),
    ],
)
def test_option_without_effect_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        options(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tls_ca": "{}/missing"}, r"tls_ca='.*missing' cannot be read where the receiver runs: No such file"),
        ({"tls_ca": "{}/text"}, r"tls_ca='.*text' is no PEM file of the right kind"),
        ({"tls_certificate": "{}/ca.pem"}, r"tls_certificate='.*ca.pem' is no PEM file of the right kind"),
        ({"tls_certificate": "{0}/client.pem", "tls_key": "{0}/text"}, "tls_certificate or tls_key=.* is no PEM file"),
    ],
)
def test_wrong_file_is_named_with_its_option(files: Path, values: dict[str, str], message: str) -> None:
    (files / "text").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=message):
        options(tls=True, **{name: value.format(files) for name, value in values.items()}).ssl_context()


def test_password_of_the_key_is_read_with_the_key(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_TEST_SECRET", raising=False)
    certificate = str(files / "client.pem")
    with pytest.raises(SecretError):
        options(tls=True, tls_certificate=certificate, tls_key_password="env:PENSTOCK_TEST_SECRET").ssl_context()
