"""The application's token: who does not show it is a stranger; and the certificates that keep it private on the way.

Owns the secret. Never prints it: no repr, log line or error holds it.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from pathlib import Path
from typing import Any

from attrs import field, frozen

from penstock import conf
from penstock.conf import Settings
from penstock.errors import ConfigurationError
from penstock.version import __version__

HEADER = "authorization"
#: Says which Penstock makes a call.
VERSION_HEADER = "penstock-version"


@frozen
class Tls:
    """PEM files, at the same paths on every host.

    Attributes:
        certificate: of this host, valid for the address at which other hosts reach it.
        key: the private key of it.
        authority: what signed every host's certificate.
    """

    certificate: str
    key: str
    authority: str

    @classmethod
    def of(cls, settings: Settings) -> Tls | None:
        """Read the configuration: all three files or none.

        Raises:
            ConfigurationError: only some are given, or one cannot be read here.
        """
        paths = {name: getattr(settings, name) for name in ("tls_certificate", "tls_key", "tls_authority")}
        if not any(paths.values()):
            return None
        for name, path in paths.items():
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise ConfigurationError(f"{conf.key(name)}={path!r} cannot be read: {error.strerror}") from None
        return cls(*paths.values())


@frozen
class Token:
    """A secret that one application's driver and receivers share.

    Attributes:
        secret: what is shown.
        tls: how connections are kept private; ``None`` for not at all, as on one machine.
    """

    secret: str = field(repr=False)
    tls: Tls | None = None

    @classmethod
    def generate(cls, tls: Tls | None = None) -> Token:
        """Make a new one, 256 bits."""
        return cls(secrets.token_urlsafe(32), tls)

    def location(self, host: str, port: int) -> str:
        """The address of an endpoint, whose host may be an IPv6 address."""
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        return f"{'grpc' if self.tls is None else 'grpc+tls'}://{host}:{port}"

    def server_arguments(self) -> dict[str, Any]:
        """What a Flight server needs to be private."""
        if self.tls is None:
            return {}
        pair = (Path(self.tls.certificate).read_bytes(), Path(self.tls.key).read_bytes())
        return {"tls_certificates": [pair]}

    def client_arguments(self) -> dict[str, Any]:
        """What a Flight client needs to know whom it talks to."""
        return {} if self.tls is None else {"tls_root_certs": Path(self.tls.authority).read_bytes()}

    def header(self) -> tuple[bytes, bytes]:
        """The header that shows it."""
        return HEADER.encode(), f"Bearer {self.secret}".encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """All headers of a call."""
        return [self.header(), (VERSION_HEADER.encode(), __version__.encode())]

    def is_shown_by(self, headers: dict[str, list[str]]) -> bool:
        """Say whether a call's headers show this token, in constant time."""
        shown = next((values[0] for name, values in headers.items() if name.lower() == HEADER and values), "")
        return compare_digest(shown.encode(), f"Bearer {self.secret}".encode())
