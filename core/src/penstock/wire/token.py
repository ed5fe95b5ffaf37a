"""The token by which an application's processes authenticate each other, and the TLS files of its connections."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from penstock.errors import ConfigurationError, text_of
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.conf import Settings

HEADER = "authorization"
#: Carries the caller's version of Penstock.
VERSION_HEADER = "penstock-version"

_PREFIX = "spark.penstock.wire.tls."
_NEEDED = f"Each host needs valid files of one authority at the paths of {_PREFIX}*"


@frozen
class Tls:
    """PEM files, at the same paths on every host; if ``mutual``, callers also present one that the authority signed."""

    certificate: str
    key: str
    authority: str
    mutual: bool = True

    @classmethod
    def of(cls, settings: Settings) -> Tls | None:
        """The configured files, ``None`` if none is set; refuses an incomplete or unusable set."""
        tls = cls(settings.tls_certificate, settings.tls_key, settings.tls_authority, settings.tls_mutual)
        paths = tls._paths()
        if not any(paths.values()):
            return None
        if missing := [name for name, path in paths.items() if not path]:
            raise ConfigurationError(
                f"{' and '.join(missing)} not set: TLS needs a certificate, its key and the authority. {_NEEDED}"
            )
        tls.check()
        return tls

    def _paths(self) -> dict[str, str]:
        return {f"{_PREFIX}{name}": getattr(self, name) for name in ("certificate", "key", "authority")}

    def check(self) -> None:
        """Check that two processes with this host's files could connect; the error names the files and the host."""
        paths = self._paths()
        for name, path in paths.items():
            _pem(path, f"{name}={path!r}")
        if reason := self._fault():
            certificate, key, authority = (f"{name}={path!r}" for name, path in paths.items())
            raise ConfigurationError(
                f"{certificate} cannot be used with {key} and {authority}: {reason}, on {socket.gethostname()}. "
                f"{_NEEDED}"
            )

    def _fault(self) -> str:
        """The reason why these files let no two processes connect; empty if a handshake in memory succeeds."""
        import ssl  # neither the Python workers that import this module, nor programs without TLS need it

        try:
            server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            server.load_cert_chain(self.certificate, self.key)
            client.load_verify_locations(self.authority)
            # The host's address is not known at this point.
            client.check_hostname = False
            to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
            ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
            # Client hello, the server's certificate, and the client's judgement of it.
            for end in (*ends, ends[0]):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except (ssl.SSLError, OSError) as error:
            return error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
        return ""


@frozen
class Token:
    """The bearer token that one application's driver and receivers share; without ``tls`` connections are plain.

    No repr, log line or error contains the secret.
    """

    secret: str = field(repr=False)
    tls: Tls | None = None

    @classmethod
    def generate(cls, tls: Tls | None = None) -> Token:
        """A new token of 256 random bits."""
        return cls(secrets.token_urlsafe(32), tls)

    def location(self, host: str, port: int) -> str:
        """The URI of an endpoint."""
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        return f"{'grpc' if self.tls is None else 'grpc+tls'}://{host}:{port}"

    def server_arguments(self) -> dict[str, Any]:
        """The TLS arguments of a Flight server."""
        if self.tls is None:
            return {}
        arguments: dict[str, Any] = {"tls_certificates": [(_pem(self.tls.certificate), _pem(self.tls.key))]}
        if self.tls.mutual:
            arguments |= {"verify_client": True, "root_certificates": _pem(self.tls.authority)}
        return arguments

    def client_arguments(self) -> dict[str, Any]:
        """The TLS arguments of a Flight client."""
        if self.tls is None:
            return {}
        arguments = {"tls_root_certs": _pem(self.tls.authority)}
        if self.tls.mutual:
            arguments |= {"cert_chain": _pem(self.tls.certificate), "private_key": _pem(self.tls.key)}
        return arguments

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of a call: authorization, version."""
        return [(HEADER.encode(), f"Bearer {self.secret}".encode()), (VERSION_HEADER.encode(), __version__.encode())]

    def authenticates(self, headers: dict[str, list[str]]) -> bool:
        """Whether a call's headers contain this token; compares in constant time."""
        header = next((values[0] for name, values in headers.items() if name.lower() == HEADER and values), "")
        return compare_digest(header.encode(), f"Bearer {self.secret}".encode())


def _pem(path: str, named: str = "") -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or text_of(error)
        raise ConfigurationError(
            f"the TLS file {named or repr(path)} cannot be read: {reason}, on {socket.gethostname()}. {_NEEDED}"
        ) from None
