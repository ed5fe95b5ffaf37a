"""``KafkaMockServer``: librdkafka's mock cluster as a child process, for tests and the demonstration."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from penstock_brokers import BrokerServer
from penstock_kafka.mock_cluster import DOWN, UP

_SIGNAL_S, _POLL_S = 10.0, 0.01


class KafkaMockServer(BrokerServer):
    """A cluster of one broker that speaks the Kafka protocol. Its records and its port end with its process."""

    name: ClassVar[str] = "Kafka-mock"

    @property
    def bootstrap_servers(self) -> str:
        """Address for clients, ``host:port``."""
        return (self.data / "address").read_text()

    def command(self) -> Sequence[str | Path]:
        (self.data / "address").unlink(missing_ok=True)
        return [sys.executable, "-m", "penstock_kafka.mock_cluster", self.data / "address"]

    def answers(self) -> bool:
        host, _, port = self.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=1):
            return True

    def cut(self) -> None:
        """Break every connection and refuse new ones until ``heal``; the records remain."""
        os.kill(self.pid, DOWN)
        self._await(answers=False)

    def heal(self) -> None:
        """End a cut."""
        os.kill(self.pid, UP)
        self._await(answers=True)

    def _await(self, *, answers: bool) -> None:
        deadline = time.monotonic() + _SIGNAL_S
        while self._answers() != answers:
            if time.monotonic() > deadline:
                raise self._failed("did not handle a signal")
            time.sleep(_POLL_S)
