"""The tokens with which an application's processes sign their calls and answers, and the TLS files of connections."""

from __future__ import annotations

import hashlib
import hmac
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

_SCHEME = "Penstock"
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
        """Check that two processes with this host's TLS files can connect; the error names the files and the host."""
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
        """The reason why a handshake with these files fails; empty if it succeeds in memory."""
        import ssl  # neither the Python workers that import this module, nor programs without TLS need it

        try:
            server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            server.load_cert_chain(self.certificate, self.key)
            client.load_verify_locations(self.authority)
            # The host's address is not known at this point.
            client.check_hostname = False
            to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
            ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
            # Client hello, the server's certificate, and its verification by the client.
            for end in (*ends, ends[0]):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except (ssl.SSLError, OSError) as error:
            return error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
        return ""


#: Size of an answer's code, which precedes the reply to a message and is the metadata of each batch of a stream.
CODE_BYTES = 32


def content_of(message: str, body: bytes) -> bytes:
    """The signed content of a call: the message's name, empty for a stream, and its body or the ticket."""
    return message.encode() + b"\0" + body


@frozen
class Signature:
    """The signature of one call: caller, random number, hash of the content, and the code over both."""

    name: str
    nonce: str
    digest: str
    code: str

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the call: authorization, version."""
        text = f"{_SCHEME} {self.name}:{self.nonce}:{self.digest}:{self.code}"
        return [(HEADER.encode(), text.encode()), (VERSION_HEADER.encode(), __version__.encode())]

    @classmethod
    def of(cls, headers: dict[str, list[str]]) -> Signature | None:
        """The signature in a call's headers, not verified; ``None`` without one."""
        header = next((values[0] for name, values in headers.items() if name.lower() == HEADER and values), "")
        scheme, _space, text = header.partition(" ")
        parts = text.split(":")
        return cls(*parts) if scheme == _SCHEME and len(parts) == 4 and text.isascii() else None

    def covers(self, content: bytes) -> bool:
        """Whether it is a signature of this content."""
        return compare_digest(self.digest, hashlib.sha256(content).hexdigest())


@frozen
class Token:
    """A secret that two sides share and never send: it signs calls and answers. Without ``tls`` connections are plain.

    No repr, log line or error contains the secret.
    """

    secret: str = field(repr=False)
    tls: Tls | None = None
    #: The name that the token was derived for; empty for the application's own token.
    name: str = ""

    @classmethod
    def generate(cls, tls: Tls | None = None) -> Token:
        """A new token of 256 random bits."""
        return cls(secrets.token_urlsafe(32), tls)

    def derive(self, name: str) -> Token:
        """The token for a name: it reveals neither this token nor that of another name."""
        return Token(self._code("derive", name.encode()).hex(), self.tls, name)

    def sign(self, content: bytes) -> Signature:
        """Sign a call."""
        nonce, digest = secrets.token_hex(16), hashlib.sha256(content).hexdigest()
        return Signature(self.name, nonce, digest, self._code("call", f"{nonce}:{digest}".encode()).hex())

    def verifies(self, signature: Signature) -> bool:
        """Whether the signature was made with this token; compares in constant time."""
        code = self._code("call", f"{signature.nonce}:{signature.digest}".encode()).hex()
        return compare_digest(code.encode(), signature.code.encode())

    def answer_code(self, signature: Signature, answer: bytes = b"") -> bytes:
        """The code, 32 bytes, that proves that an answer to a call comes from an owner of this token."""
        return self._code("answer", signature.code.encode() + answer)

    def _code(self, purpose: str, content: bytes) -> bytes:
        return hmac.digest(self.secret.encode(), purpose.encode() + b"\0" + content, "sha256")

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


def _pem(path: str, named: str = "") -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or text_of(error)
        raise ConfigurationError(
            f"the TLS file {named or repr(path)} cannot be read: {reason}, on {socket.gethostname()}. {_NEEDED}"
        ) from None
