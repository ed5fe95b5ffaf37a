"""Which requests a webhook refuses, and with which answer. Pure functions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from aiohttp import web

from penstock import PenstockError
from penstock.spi import shortened, text_of
from penstock_brokers import check_json
from penstock_http.options import WebhookOptions
from penstock_http.request_records import split_body
from penstock_http.signatures import DEFAULT_HEADERS, is_signed, is_token

# Answers that tell of a mistake of the sender, or of a stranger.
_FAULTS = frozenset({400, 401, 413})
_LONGEST = 200


class Refused(PenstockError):
    """The answer to a request whose records are not stored, or not all of them.

    Args:
        status: HTTP status.
        message: message for the sender.
        retry_after_s: when the sender may try again, in seconds; ``None`` if that is useless.
    """

    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def is_fault_of_sender(self) -> bool:
        """Whether the same request will be refused again."""
        return self.status in _FAULTS

    def response(self) -> web.Response:
        """The answer."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        text = json.dumps({"error": self.message}) + "\n"
        return web.Response(status=self.status, text=text, headers=headers, content_type="application/json")


def check_token(headers: Mapping[str, str], name: str, token: bytes) -> None:
    """Check the token of a request.

    Args:
        headers: headers of the request.
        name: name of the header; in ``Authorization`` the token follows ``Bearer``.
        token: the right one.

    Raises:
        Refused: it is missing or wrong.
    """
    value = headers.get(name, "")
    if name.lower() == "authorization":
        scheme, _, value = value.partition(" ")
        value = value if scheme.lower() == "bearer" else ""
    if not is_token(value, token):
        raise Refused(401, f"the header {name} has no valid token")


def check_signature(headers: Mapping[str, str], options: WebhookOptions, key: bytes, body: bytes, now_s: float) -> None:
    """Check the signature of a request.

    Raises:
        Refused: it is missing, wrong or too old.
    """
    name = options.signature_header or DEFAULT_HEADERS[options.signature]
    if not is_signed(options.signature, key, headers.get(name, ""), body, now_s):
        raise Refused(401, f"the header {name} has no valid signature")


def records_of(body: bytes, content_type: str, options: WebhookOptions) -> list[bytes]:
    """The records of a body.

    Raises:
        Refused: the body is not as the options say.
    """
    try:
        records = split_body(body, options.records, content_type)
        # Without Arrow, which takes longer for a few records.
        if options.value_as != "bytes":
            for text in [record.decode() for record in records]:
                if options.value_as == "json":
                    check_json(text)
    except ValueError as error:
        raise Refused(400, f"the body cannot be read: {shortened(text_of(error), _LONGEST)}") from None
    return records


def expected_wait_s(num_records: int, rate: float | None) -> float:
    """Seconds that a request waits behind this many records under a rate limit in records/s."""
    return 0.0 if rate is None else num_records / rate


def retry_after_s(wait_s: float) -> int:
    """The value of the header Retry-After, in whole seconds."""
    return max(1, math.ceil(wait_s))
