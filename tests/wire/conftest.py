"""An endpoint that records what its handler gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.receive.messages import AddBlocks, ReportError, UpdateRateLimit
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply
from penstock.wire.token import Token


class Served:
    """A running endpoint, its token, and the messages that reached a handler."""

    def __init__(self) -> None:
        self.token = Token.generate()
        self.handled: list[object] = []
        self.answer: Callable[[object], object] = lambda _message: Reply()
        kinds = (AddBlocks, ReportError, UpdateRateLimit)
        self.endpoint = Endpoint("127.0.0.1", self.token, dict.fromkeys(kinds, self._handle))
        self.location = f"grpc://127.0.0.1:{self.endpoint.port}"
        self._clients: list[Client] = []

    def _handle(self, message: object) -> object:
        self.handled.append(message)
        return self.answer(message)

    def client(self, token: Token | None = None, timeout_ms: int = 10_000, *, retry: bool = True) -> Client:
        """A client of the endpoint, by default with its token."""
        self._clients.append(Client(self.location, token or self.token, timeout_ms, retry=retry))
        return self._clients[-1]

    def close(self) -> None:
        """Close all that was opened."""
        for client in self._clients:
            client.close()
        self.endpoint.stop()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()
