"""The token by which an application's processes authenticate each other, and the TLS files of its connections.

No repr, log line or error contains the secret.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from penstock.errors import ConfigurationError
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.conf import Settings

HEADER = "authorization"
#: Carries the caller's version of Penstock.
VERSION_HEADER = "penstock-version"


@frozen
class Tls:
    """PEM files, at the same paths on every host.

    Attributes:
        certificate: this host's, valid for the address at which other hosts reach it.
        key: the certificate's private key.
        authority: the certificate authority that signed every host's certificate.
    """

    certificate: str
    key: str
    authority: str

    @classmethod
    def of(cls, settings: Settings) -> Tls | None:
        """Return the configured files, ``None`` if none is set.

        Raises:
            ConfigurationError: only some of the three are set, or one cannot be read on this host.
        """
        paths = {name: getattr(settings, name) for name in ("tls_certificate", "tls_key", "tls_authority")}
        if not any(paths.values()):
            return None
        for name, path in paths.items():
            try:
                Path(path).read_bytes()
            except OSError as error:
                from penstock.conf import key  # Python workers import this module, and never come here

                raise ConfigurationError(f"{key(name)}={path!r} cannot be read: {error.strerror}") from None
        return cls(*paths.values())


@frozen
class Token:
    """A secret that one application's driver and receivers share.

    Attributes:
        secret: the bearer token of every call.
        tls: the TLS files; ``None`` for plain connections, as on one machine.
    """

    secret: str = field(repr=False)
    tls: Tls | None = None

    @classmethod
    def generate(cls, tls: Tls | None = None) -> Token:
        """Return a new token of 256 random bits."""
        return cls(secrets.token_urlsafe(32), tls)

    def location(self, host: str, port: int) -> str:
        """Return the URI of an endpoint; the host may be an IPv6 address."""
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        return f"{'grpc' if self.tls is None else 'grpc+tls'}://{host}:{port}"

    def server_arguments(self) -> dict[str, Any]:
        """Return the TLS arguments of a Flight server."""
        if self.tls is None:
            return {}
        pair = (Path(self.tls.certificate).read_bytes(), Path(self.tls.key).read_bytes())
        return {"tls_certificates": [pair]}

    def client_arguments(self) -> dict[str, Any]:
        """Return the TLS arguments of a Flight client."""
        return {} if self.tls is None else {"tls_root_certs": Path(self.tls.authority).read_bytes()}

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of a call: authorization, version."""
        return [(HEADER.encode(), f"Bearer {self.secret}".encode()), (VERSION_HEADER.encode(), __version__.encode())]

    def is_shown_by(self, headers: dict[str, list[str]]) -> bool:
        """Return whether a call's headers show this token; compares in constant time."""
        shown = next((values[0] for name, values in headers.items() if name.lower() == HEADER and values), "")
        return compare_digest(shown.encode(), f"Bearer {self.secret}".encode())
