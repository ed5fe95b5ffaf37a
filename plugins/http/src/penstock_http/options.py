"""The options of the receivers ``webhook``, ``websocket`` and ``sse``."""

from __future__ import annotations

import ipaddress
import ssl
from typing import Any, Literal

import attrs
from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, le, matches_re, min_len

from penstock import ConfigurationError
from penstock_brokers import SecretText, TlsOptions, ValueAs, columns_option, secret_option
from penstock_http.request_records import Split
from penstock_http.signatures import Scheme

_MIB = 1 << 20
WebhookColumn = Literal["value", "method", "path", "query", "headers", "remote", "timestamp"]


def _check_admission(options: WebhookOptions, _attribute: attrs.Attribute[Any], anonymous: bool) -> None:
    if not (anonymous or options.token or options.signature or _is_loopback(options.host)):
        raise ValueError(
            f"anonymous is false, and anybody could send to host={options.host!r}: set token or signature, or "
            "anonymous=true"
        )


def _check_key(options: WebhookOptions, _attribute: attrs.Attribute[Any], key: object) -> None:
    if bool(key) is not bool(options.signature):
        raise ValueError("signature_key and signature must be given together")


def server_context(certificate: str, key: str, password: SecretText | None) -> ssl.SSLContext | None:
    """The TLS context of a server with this certificate; ``None`` without one."""
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key or None, password.read() if password else "")
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"tls_certificate={certificate!r} or tls_key={key!r} is no PEM file of the right kind, or its password is "
            f"wrong: {error.reason or error}"
        ) from None
    except OSError as error:
        raise ConfigurationError(
            f"tls_certificate={certificate!r} or tls_key={key!r} cannot be read where the receiver runs: "
            f"{error.strerror}"
        ) from None
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


WebSocketColumn = Literal["value", "timestamp"]
EventColumn = Literal["value", "event", "id", "timestamp"]


@frozen(kw_only=True)
class WebhookOptions:
    """Options of the receiver ``webhook``; the ``help`` of each field describes it."""

    port: int = field(validator=and_(ge(1), le(65535)), metadata={"help": "TCP port to listen on"})
    host: str = field(
        default="127.0.0.1",
        validator=min_len(1),
        metadata={"help": "address to listen on; by default only this machine reaches it. 0.0.0.0 is every interface"},
    )
    path: str = field(
        default="/",
        validator=matches_re(r"/[^{}?#\s]*"),
        metadata={"help": "path of the address; others are answered with 404"},
    )
    method: str = field(
        default="POST",
        validator=in_(("POST", "PUT", "PATCH")),
        metadata={"help": "method of requests: POST, PUT or PATCH; others are answered with 405"},
    )
    token: SecretText | None = secret_option("token that a request must carry")
    auth_header: str = field(
        default="Authorization",
        validator=matches_re(r"[A-Za-z0-9-]+"),
        metadata={"help": "header of the token; in Authorization it follows Bearer"},
    )
    signature: Scheme = field(
        default="",
        validator=in_(("", "github", "stripe")),
        metadata={"help": "form of the signature that a request must carry: github or stripe"},
    )
    signature_header: str = field(
        default="", metadata={"help": "header of the signature; by default that of the sender which `signature` names"}
    )
    signature_key: SecretText | None = field(
        default=None, repr=False, validator=_check_key, metadata=secret_option("key of signatures").metadata
    )
    anonymous: bool = field(
        default=False,
        validator=_check_admission,
        metadata={"help": "admit everybody who reaches an address beyond this machine"},
    )
    records: Split = field(
        default="body",
        validator=in_(("body", "lines", "array", "auto")),
        metadata={
            "help": "records of a body: body for one, lines, array for those of a JSON array, auto by content type"
        },
    )
    value_as: ValueAs = field(
        default="text",
        validator=in_(("bytes", "text", "json")),
        metadata={"help": "form of a record: bytes, text, or json, which is text that was checked"},
    )
    columns: tuple[WebhookColumn, ...] = columns_option(
        ("value", "path", "query", "headers", "timestamp"),
        {
            "value": "the record",
            "method": "method of the request",
            "path": "its path",
            "query": "its query",
            "headers": "its headers without credentials",
            "remote": "address of the sender, or of a proxy",
            "timestamp": "when it arrived",
        },
    )
    max_body_bytes: int = field(
        default=_MIB,
        validator=and_(ge(1), le(1 << 30)),
        metadata={"help": "a larger body is answered with 413"},
    )
    max_waiting_bytes: int = field(
        default=64 * _MIB,
        validator=ge(1),
        metadata={"help": "limit of the bodies in memory; further requests are answered with 429 or 503"},
    )
    max_wait: float = field(
        default=5.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "seconds after which a request that waits for the rate limit is answered with 429"},
    )
    linger: float = field(
        default=0.01,
        validator=and_(ge(0), le(10)),
        metadata={"help": "least seconds from one store to the next; requests that come meanwhile share a block"},
    )
    run_on: str = field(default="", metadata={"help": "host whose executor runs the receiver, if there is one"})
    tls_certificate: str = field(
        default="", metadata={"help": "file with the server's certificate (PEM); with it the server speaks HTTPS only"}
    )
    tls_key: str = field(
        default="",
        metadata={"help": "file with the certificate's private key (PEM); by default it is in `tls_certificate`"},
    )
    tls_key_password: SecretText | None = secret_option("password of the private key")

    def ssl_context(self) -> ssl.SSLContext | None:
        """The context of the server; ``None`` without a certificate.

        Raises:
            ConfigurationError: a file cannot be read, or is not a certificate or key.
            SecretError: the password cannot be read.
        """
        return server_context(self.tls_certificate, self.tls_key, self.tls_key_password)


@frozen(kw_only=True)
class ClientOptions:
    """The common options of receivers that connect to a server."""

    url: str
    token: SecretText | None = secret_option("token to send to the server")
    auth_header: str = field(
        default="Authorization",
        validator=matches_re(r"[A-Za-z0-9-]+"),
        metadata={"help": "header of the token; in Authorization it follows Bearer"},
    )
    value_as: ValueAs = field(
        default="text",
        validator=in_(("bytes", "text", "json")),
        metadata={"help": "form of a message: bytes, text, or json, which is text that was checked"},
    )
    max_message_bytes: int = field(
        default=_MIB,
        validator=and_(ge(1), le(1 << 30)),
        metadata={
            "help": "limit of a message; a longer event is dropped, a longer message of a WebSocket ends the connection"
        },
    )
    connect_timeout: float = field(
        default=10.0, validator=and_(gt(0), le(3600)), metadata={"help": "seconds to wait for a connection"}
    )
    idle_timeout: float = field(
        default=60.0,
        validator=and_(gt(0), le(86_400)),
        metadata={"help": "seconds without a sign of life of the server after which the receiver connects again"},
    )
    tls_ca: str = field(
        default="",
        metadata={"help": "file with the certificates of authorities (PEM); by default those of the system"},
    )
    tls_certificate: str = field(
        default="", metadata={"help": "file with the client's certificate (PEM), for servers that ask for one"}
    )
    tls_key: str = field(
        default="",
        metadata={"help": "file with the certificate's private key (PEM); by default it is in `tls_certificate`"},
    )
    tls_key_password: SecretText | None = secret_option("password of the private key")

    def headers(self) -> dict[str, str]:
        """The headers that authenticate the receiver.

        Raises:
            SecretError: the token cannot be read.
        """
        if self.token is None:
            return {}
        token = self.token.read()
        return {self.auth_header: f"Bearer {token}" if self.auth_header.lower() == "authorization" else token}

    def ssl_context(self) -> ssl.SSLContext | bool:
        """The context of an encrypted connection; ``True``, the client's default, for an address without TLS.

        Raises:
            ConfigurationError: a file cannot be read, or is not a certificate or key.
            SecretError: the password cannot be read.
        """
        options = TlsOptions(
            tls=self.url.startswith(("https:", "wss:")),
            tls_ca=self.tls_ca,
            tls_certificate=self.tls_certificate,
            tls_key=self.tls_key,
            tls_key_password=self.tls_key_password,
        )
        return options.ssl_context() or True


@frozen(kw_only=True)
class WebSocketOptions(ClientOptions):
    """Options of the receiver ``websocket``; the ``help`` of each field describes it."""

    url: str = field(
        validator=matches_re(r"wss?://[^\s@]+"),
        metadata={"help": "address of the server: ws://… or wss://…, without a password"},
    )
    subscribe: str = field(default="", metadata={"help": "text message to send after connecting"})
    columns: tuple[WebSocketColumn, ...] = columns_option(
        ("value",), {"value": "the message", "timestamp": "when it arrived"}
    )


@frozen(kw_only=True)
class SseOptions(ClientOptions):
    """Options of the receiver ``sse``; the ``help`` of each field describes it."""

    url: str = field(
        validator=matches_re(r"https?://[^\s@]+"),
        metadata={"help": "address of the events: http://… or https://…, without a password"},
    )
    last_event_id: str = field(
        default="",
        metadata={"help": "id of an event: the server sends those after it; empty for what it sends by itself"},
    )
    columns: tuple[EventColumn, ...] = columns_option(
        ("value", "event", "id", "timestamp"),
        {
            "value": "the data of the event",
            "event": "its type",
            "id": "the last id that the server had sent",
            "timestamp": "when it arrived",
        },
    )
