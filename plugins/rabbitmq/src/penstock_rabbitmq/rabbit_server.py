"""``RabbitServer``: RabbitMQ as a child process, for tests and the demonstration."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from penstock_brokers import BrokerServer, BrokerServerError, free_port

_HOMES = ("/usr/lib/rabbitmq/lib", "/opt/rabbitmq", "/usr/local/lib/rabbitmq/lib")
_PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
_METHOD_FRAME = b"\x01"
_CONTROL_S = 120.0
# Erlang's own name server comes first, on a port of its own; the shell then becomes RabbitMQ.
_START = 'epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & exec "$0"'


def _program(name: str) -> Path:
    """A program of RabbitMQ itself: the one in ``/usr/sbin`` changes user and folder."""
    for home in _HOMES:
        for found in sorted(Path(home).glob(f"**/sbin/{name}"), reverse=True):
            return found
    raise BrokerServerError("RabbitMQ is not installed: apt-get install rabbitmq-server, or see rabbitmq.com")


class RabbitServer(BrokerServer):
    """A node of its own, without plugins: user ``guest`` with password ``guest``.

    Args:
        configuration: further lines of ``rabbitmq.conf``.
    """

    name = "RabbitMQ"
    start_timeout_s: ClassVar[float] = 120.0

    def __init__(self, *configuration: str) -> None:
        super().__init__()
        self._configuration = configuration
        self._name_port = free_port()
        self._distribution_port = free_port()

    def command(self) -> list[str | Path]:
        if shutil.which("epmd") is None:
            raise BrokerServerError("epmd of Erlang is not installed: apt-get install rabbitmq-server")
        lines = [f"listeners.tcp.default = 127.0.0.1:{self.port}", "log.console = true", *self._configuration]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (self.folder / "plugins").write_text("[].\n", encoding="utf-8")
        (self.folder / "rabbitmq-env.conf").touch()
        (self.folder / "home").mkdir(exist_ok=True)
        return ["sh", "-c", _START, _program("rabbitmq-server")]

    def environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self.folder / "home"),
            "ERL_EPMD_PORT": str(self._name_port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_NODENAME": f"penstock{self._name_port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            # Timeouts of consumers are noticed within a second; two schedulers that do not spin.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-rabbit channel_tick_interval 1000 +S 2:2 +sbwt none",
        }

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.settimeout(5)
            connection.sendall(_PROTOCOL_HEADER)
            return connection.recv(1) == _METHOD_FRAME

    def control(self, *arguments: str) -> str:
        """Run ``rabbitmqctl``; return what it prints.

        Raises:
            BrokerServerError: it failed; the message has what it printed.
        """
        environment = {**os.environ, **self.environment()}
        ran = subprocess.run(
            [_program("rabbitmqctl"), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=_CONTROL_S,
            check=False,
        )
        if ran.returncode:
            raise BrokerServerError(f"rabbitmqctl {' '.join(arguments)} failed: {ran.stdout}{ran.stderr}")
        return ran.stdout
