"""The application's token: who does not show it is a stranger.

Owns the secret. Never prints it: no repr, log line or error holds it.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest

from attrs import field, frozen

HEADER = "authorization"


@frozen
class Token:
    """A secret that one application's driver and receivers share."""

    secret: str = field(repr=False)

    @classmethod
    def generate(cls) -> Token:
        """Make a new one, 256 bits."""
        return cls(secrets.token_urlsafe(32))

    def header(self) -> tuple[bytes, bytes]:
        """The header to send with every call."""
        return HEADER.encode(), f"Bearer {self.secret}".encode()

    def is_shown_by(self, headers: dict[str, list[str]]) -> bool:
        """Say whether a call's headers show this token, in constant time."""
        shown = next((values[0] for name, values in headers.items() if name.lower() == HEADER and values), "")
        return compare_digest(shown.encode(), f"Bearer {self.secret}".encode())
