"""Who may read the dashboard: the token, the cookie that it is exchanged for, and the checks of Host and Origin."""

from __future__ import annotations

import hmac
import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

from attrs import field, frozen

from penstock.spi import shown

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

#: The option that switches the token off.
NO_TOKEN = "none"


@frozen
class Token:
    """The secret that a request must carry.

    Attributes:
        value: the secret; empty for none.
        is_generated: whether it was made for this run, so that only the dashboard's address tells it.
    """

    value: str = field(default="", repr=False)
    is_generated: bool = False

    @classmethod
    def of(cls, option: str, variable: str = "") -> Self:
        """The token for an option: none for ``none``; for an empty one the variable's, or a generated one."""
        if option == NO_TOKEN:
            return cls()
        fixed = option or variable
        return cls(fixed) if fixed else cls(secrets.token_urlsafe(32), is_generated=True)


@frozen
class Refusal:
    """The answer to a request that is refused: an HTTP status, and what was refused, why, and what to do."""

    status: int
    message: str


class Access:
    """Decides about each request.

    A program sends the token itself, and may use any Host. A browser sends a cookie, or nothing if there is no token;
    then the request must come from a page of the dashboard.

    Args:
        token: token that a request must carry.
        host: the address that the server is bound to.
        port: names the cookie, because browsers send cookies to every port of a host.
    """

    def __init__(self, token: Token, host: str, port: int) -> None:
        self._token = token.value.encode()
        self._host = host.lower()
        self.cookie_name = f"penstock-ui-{port}"

    def refusal(self, request: HTTPServerRequest) -> Refusal | None:
        """Why a request is refused; ``None`` if it may be answered."""
        if self._token:
            if self._is_token(bearer(request)) or self.has_token_in_query(request):
                return None
            cookie = request.cookies.get(self.cookie_name)
            if cookie is None or not hmac.compare_digest(cookie.value.encode(), self.cookie(request).encode()):
                return _UNAUTHORIZED
        elif not self._is_own_name(request.host_name):
            return Refusal(
                403,
                f"Host {shown(request.host_name)} refused: without a token the dashboard answers to its IP address and "
                "to localhost only. Use one of them, or a token: spark.penstock.ui.token",
            )
        origin = request.headers.get("Origin")
        if origin is not None and _authority(origin) != request.host.lower():
            return Refusal(
                403,
                f"Origin {shown(origin)} refused: only pages of the dashboard itself may send requests from a browser, "
                f"and its Host is {shown(request.host)}. A reverse proxy must pass the header Host on unchanged",
            )
        return None

    def has_token_in_query(self, request: HTTPServerRequest) -> bool:
        """Whether the request's address contains the token."""
        return bool(self._token) and any(map(self._is_token, request.query_arguments.get("token", ())))

    def cookie(self, request: HTTPServerRequest) -> str:
        """The cookie's value, which is valid for the request's Host only and does not contain the token."""
        return hmac.digest(self._token, request.host.lower().encode(), "sha256").hex()

    def _is_token(self, value: bytes) -> bool:
        return hmac.compare_digest(value, self._token)

    def _is_own_name(self, name: str) -> bool:
        """Whether the name is this host's own, and not a foreign name that resolves to it (DNS rebinding)."""
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return name.lower() in ("localhost", self._host)
        return True


_UNAUTHORIZED = Refusal(
    401,
    "token missing or wrong: it is part of the dashboard's address in ssc.uiWebUrl and in the log event 'dashboard "
    "started' (level INFO), or set by spark.penstock.ui.token. Open that address, or send the header "
    "Authorization: Bearer TOKEN",
)


def _authority(origin: str) -> str:
    """Host and port of an origin; empty if it is not an address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def bearer(request: HTTPServerRequest) -> bytes:
    """The token in the header ``Authorization``; empty for none."""
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    # Tornado decodes headers as Latin-1.
    return credentials.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""


def without_token(request: HTTPServerRequest) -> None:
    """Remove the token from the request's address, so that no handler logs it."""
    request.arguments.pop("token", None)
    if request.query_arguments.pop("token", None) is not None:
        arguments: Any = [(name, value) for name, values in request.query_arguments.items() for value in values]
        request.query = urlencode(arguments)
        request.uri = f"{request.path}?{request.query}" if request.query else request.path


def is_secure(request: HTTPServerRequest) -> bool:
    """Whether the browser's connection has TLS, also when it ends at a reverse proxy."""
    return "https" in (request.protocol, request.headers.get("X-Forwarded-Proto", "").lower())
