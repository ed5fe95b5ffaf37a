"""``TlsOptions``: the options of an encrypted connection, to derive a receiver's options from."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
from attrs import field, frozen

from penstock import ConfigurationError
from penstock_brokers.secret import SecretText, secret_option

T = TypeVar("T")


def _with_tls(options: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if value and not options.tls:
        raise ValueError(f"{attribute.name} has no effect without tls=true")


def _with_certificate(options: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    _with_tls(options, attribute, value)
    if value and not options.tls_certificate:
        raise ValueError(f"{attribute.name} has no effect without tls_certificate")


@frozen(slots=False, kw_only=True)  # a receiver's options derive from several such classes
class TlsOptions:
    """Options of TLS. Files are read on the executor, when the receiver connects."""

    tls: bool = field(
        default=False,
        metadata={"help": "encrypt the connection, and verify the server's certificate and name"},
    )
    tls_ca: str = field(
        default="",
        validator=_with_tls,
        metadata={"help": "file with the certificates of authorities (PEM); by default those of the system"},
    )
    tls_certificate: str = field(
        default="",
        validator=_with_tls,
        metadata={"help": "file with the client's certificate (PEM), for brokers that ask for one"},
    )
    tls_key: str = field(
        default="",
        validator=_with_certificate,
        metadata={"help": "file with the certificate's private key (PEM); by default it is in `tls_certificate`"},
    )
    tls_key_password: SecretText | None = secret_option("password of the private key", _with_certificate)

    def ssl_context(self) -> ssl.SSLContext | None:
        """The context of a connection; ``None`` without TLS.

        Raises:
            ConfigurationError: a file cannot be read, or is not a certificate or key; names the option.
            SecretError: the password cannot be read.
        """
        if not self.tls:
            return None
        context = _loaded("tls_ca", self.tls_ca, lambda: ssl.create_default_context(cafile=self.tls_ca or None))
        if self.tls_certificate:
            password = self.tls_key_password.read() if self.tls_key_password else None
            files = self.tls_certificate, self.tls_key or None
            names = "tls_certificate" + " or tls_key" * bool(self.tls_key)
            # OpenSSL would ask on the terminal for a missing password.
            _loaded(names, self.tls_certificate, lambda: context.load_cert_chain(*files, password or ""))
        return context


def _loaded(option: str, path: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{option}={path!r} is no PEM file of the right kind, or its password is wrong: {error.reason or error}"
        ) from None
    except OSError as error:
        reason = f"cannot be read where the receiver runs: {error.strerror}"
        raise ConfigurationError(f"{option}={path!r} {reason}") from None
