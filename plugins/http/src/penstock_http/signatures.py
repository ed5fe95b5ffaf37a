"""Signatures of a request's body by HMAC with SHA-256, in the forms that common senders use. Pure functions."""

from __future__ import annotations

import hmac
from typing import Literal

#: ``github``: the hexadecimal code of the body, behind ``sha256=``. ``stripe``: ``t=seconds,v1=code,…``, with the code
#: of the time, a dot and the body.
Scheme = Literal["", "github", "stripe"]

#: Header of a scheme's signature, unless an option names another one.
DEFAULT_HEADERS = {"github": "X-Hub-Signature-256", "stripe": "Stripe-Signature"}
# An older signature may be a copy of an earlier request.
_TOLERANCE_S = 300


def code_of(key: bytes, message: bytes) -> str:
    """The hexadecimal HMAC-SHA-256 of a message."""
    return hmac.digest(key, message, "sha256").hex()


def is_signed(scheme: Scheme, key: bytes, signature: str, body: bytes, now_s: float) -> bool:
    """Whether a signature is that of the body.

    Args:
        scheme: form of the signature.
        key: the secret shared with the sender.
        signature: value of the header; empty if there is none.
        body: body of the request, as received.
        now_s: time since the epoch. A ``stripe`` signature from five minutes earlier or later is refused.
    """
    if scheme == "github":
        return _equal(signature, f"sha256={code_of(key, body)}")
    parts = [part.partition("=") for part in signature.split(",")]
    times = [value for name, _, value in parts if name.strip() == "t"]
    # No longer than a time: the digits come from a stranger.
    if len(times) != 1 or not times[0].isascii() or not times[0].isdigit() or len(times[0]) > 12:
        return False
    expected = code_of(key, times[0].encode() + b"." + body)
    # Several, while the sender changes its secret.
    is_right = any(_equal(value, expected) for name, _, value in parts if name.strip() == "v1")
    return is_right and abs(now_s - int(times[0])) <= _TOLERANCE_S


def is_token(presented: str, token: bytes) -> bool:
    """Whether a stranger presents the token; takes as long for any wrong one of its length."""
    return hmac.compare_digest(presented.encode(errors="surrogateescape"), token)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="surrogateescape"), other.encode())
