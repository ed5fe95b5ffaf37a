"""A broker that is a few lines of Python."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from penstock_brokers import BrokerServer

# Answers each connection with its process id, and notes in its data that it has run. It has a child of its own.
BROKER = """
import os, pathlib, socket, subprocess, sys
port, data = int(sys.argv[1]), pathlib.Path(sys.argv[2])
child = subprocess.Popen(["sleep", "1000"])
with socket.create_server(("127.0.0.1", port)) as server:
    (data / f"run-{os.getpid()}").write_text(str(child.pid))
    while True:
        connection, _ = server.accept()
        connection.sendall(b"%d" % os.getpid())
        connection.close()
"""


class PythonBroker(BrokerServer):
    name = "Broker"
    start_timeout_s = 20.0
    program = BROKER

    def command(self) -> list[str | Path]:
        return [sys.executable, "-c", self.program, str(self.port), self.data]

    def answers(self) -> bool:
        # Short, because another process may have the port.
        return self.ask(0.2) == str(self.pid)

    def ask(self, timeout_s: float = 20.0) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as connection:
            return connection.recv(100).decode()

    @property
    def runs(self) -> list[str]:
        return [path.name for path in self.data.iterdir()]
