"""The demonstration ``penstock demo webhook``: a client that sends lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Any

from penstock_brokers import free_port

_ANSWER_S = 30.0


@contextmanager
def webhook() -> Iterator[tuple[Mapping[str, Any], Callable[[Sequence[str]], None]]]:
    """Give the options of the receiver, and a function that sends lines to its port."""
    with closing(HTTPConnection("127.0.0.1", free_port(), timeout=_ANSWER_S)) as connection:

        def send(lines: Sequence[str]) -> None:
            """Send lines once. A real sender would send those again that the receiver did not answer with 2xx."""
            try:
                connection.request("POST", "/", "\n".join(lines).encode())
                connection.getresponse().read()
            except (OSError, HTTPException):
                # The receiver does not listen yet, or no longer.
                connection.close()

        yield {"port": connection.port, "columns": ("value",), "records": "lines"}, send
