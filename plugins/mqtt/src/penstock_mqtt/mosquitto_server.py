"""``MosquittoServer``: Eclipse Mosquitto as a child process, for tests and the demonstration."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from pathlib import Path

from penstock_brokers import BrokerServer, BrokerServerError

# MQTT 3.1.1, a clean session, keepalive 60 s, no client id; and an answer that accepts or refuses it.
_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00"
_CONNACK = b"\x20"
_SAVE_S = 20.0
_POLL_S = 0.01
_CONFIGURATION = """
listener {port} 127.0.0.1
persistence true
persistence_location {data}/
autosave_interval 1
max_queued_messages 0
max_queued_bytes 0
"""


class MosquittoServer(BrokerServer):
    """A broker that saves its sessions and messages every second, and at a stop.

    Args:
        configuration: further lines of ``mosquitto.conf``.
    """

    name = "Mosquitto"

    def __init__(self, *configuration: str) -> None:
        self._configuration = configuration or ("allow_anonymous true",)
        super().__init__()

    def command(self) -> list[str | Path]:
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
        if program is None:
            raise BrokerServerError("Mosquitto is not installed: apt-get install mosquitto, or see mosquitto.org")
        path = self.folder / "mosquitto.conf"
        lines = [_CONFIGURATION.format(port=self.port, data=self.data), *self._configuration]
        # Otherwise it becomes another user, who cannot write here.
        lines += ["user root"] * (os.geteuid() == 0)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return [program, "-c", path]

    def save(self) -> None:
        """Let the broker save its sessions and messages now, as a crash loses the changes since the last time."""
        before = self._saved_ns()
        deadline = time.monotonic() + _SAVE_S
        while self._saved_ns() == before:
            os.kill(self.pid, signal.SIGUSR1)
            if time.monotonic() > deadline:
                raise BrokerServerError(f"Mosquitto has not saved its data within {_SAVE_S:g} s")
            time.sleep(_POLL_S)

    def _saved_ns(self) -> int:
        path = self.data / "mosquitto.db"
        return path.stat().st_mtime_ns if path.exists() else 0

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.settimeout(1)
            connection.sendall(_CONNECT)
            return connection.recv(4)[:1] == _CONNACK
