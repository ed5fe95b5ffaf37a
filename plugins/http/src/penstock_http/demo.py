"""The demonstration of ``penstock demo webhook``: a sender of lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Any

from penstock_brokers import LineProducer, free_port

_PAUSE_S = 0.1
_PATIENCE_S = 300.0
_REFUSED = 429


@contextmanager
def webhook(rate: float, seed: int | None) -> Iterator[Mapping[str, Any]]:
    """Send lines to a port, on which the receiver listens soon.

    Args:
        rate: lines per second.
        seed: the same seed gives the same lines.

    Yields:
        The options of the receiver.
    """
    connection = HTTPConnection("127.0.0.1", free_port(), timeout=_PATIENCE_S)
    is_over = False

    def send(lines: Sequence[str]) -> None:
        """Send lines until they are stored, as a sender of webhooks does."""
        while not is_over:
            try:
                connection.request("POST", "/", "\n".join(lines).encode())
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException):
                connection.close()
            else:
                if answer.status < _REFUSED:
                    return
            time.sleep(_PAUSE_S)

    with LineProducer(send, rate, seed):
        yield {
            "port": connection.port,
            "columns": ("value",),
            "records": "lines",
            # All lines of the time until the receiver listens.
            "max_body_bytes": 64 << 20,
        }
        is_over = True
    connection.close()
