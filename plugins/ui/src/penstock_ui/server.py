"""``UIServer``: serves REST, Prometheus and the dashboard of one application, on its own thread.

``start`` binds the port. Tornado and the handlers in ``penstock_ui.web`` are imported at the first connection, so an
application without visitors does not pay for them.
"""

from __future__ import annotations

import importlib
import selectors
import socket
import threading
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

from penstock import ConfigurationError
from penstock.spi import get_logger
from penstock_ui.access import Token
from penstock_ui.snapshot import Source

log = get_logger("ui")

_STOP_S = 5.0


class UIServer:
    """Serves one application.

    Args:
        source: the state.
        host: address to listen on.
        port: first port to try; 0 for any.
        retries: number of further ports to try.
        token: the secret that every request must carry; by default a generated one.
        name: host name for ``url`` when the server listens on all addresses.

    Attributes:
        url: address of the dashboard, without the token; empty before the start.
        address: the same for its operator: with a token that was generated, because nothing else tells it.
    """

    def __init__(
        self,
        source: Source,
        host: str = "127.0.0.1",
        port: int = 4050,
        retries: int = 16,
        token: Token | None = None,
        name: str = "localhost",
    ) -> None:
        self._source = source
        self._host = host
        self._token = token or Token.of("")
        self._name = name
        self._ports = range(port, min(port + retries, 65535) + 1) if port else [0]
        self._thread: threading.Thread | None = None
        self._end: socket.socket | None = None
        self.url = self.address = ""

    def start(self) -> None:
        """Bind a port and start to serve.

        Raises:
            OSError: none of the ports is free, or this host does not have the address.
            ConfigurationError: other hosts could reach a server without token.
        """
        listening = self._bind()
        bound, port = ip_address(listening.getsockname()[0]), listening.getsockname()[1]
        if not self._token.value and not bound.is_loopback:
            listening.close()
            raise ConfigurationError(
                f"spark.penstock.ui.host={self._host} with spark.penstock.ui.token=none: every host could read the "
                "dashboard. Remove spark.penstock.ui.token for a generated token, or set one"
            )
        name = self._name if bound.is_unspecified else self._host
        self.url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        self.address = f"{self.url}/?token={quote(self._token.value)}" if self._token.is_generated else self.url
        # Closing ``_end`` makes ``wake`` readable, which ends the thread.
        self._end, wake = socket.socketpair()
        self._thread = threading.Thread(target=self._run, args=(listening, wake), name="penstock-ui", daemon=True)
        self._thread.start()
        log.info("dashboard started", address=self.address)

    def stop(self) -> None:
        """Close the port and every connection. May be called again."""
        end, self._end = self._end, None
        if end is not None and self._thread is not None:
            end.close()
            self._thread.join(_STOP_S)

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        for port in self._ports:
            try:
                return socket.create_server((self._host, port), family=family, backlog=128)
            except OSError:
                if port == self._ports[-1]:
                    raise
        raise AssertionError("there is always a port to try")

    def _run(self, listening: socket.socket, wake: socket.socket) -> None:
        try:
            # No connection is accepted yet: clients wait in the socket's backlog.
            with selectors.DefaultSelector() as selector:
                selector.register(wake, selectors.EVENT_READ)
                selector.register(listening, selectors.EVENT_READ)
                readable = [key.fileobj for key, _events in selector.select()]
            if wake not in readable:
                web: Any = importlib.import_module("penstock_ui.web")
                web.serve(listening, wake, self._source, self._token, self._host)
        except Exception:
            log.exception("dashboard ended")
        finally:
            listening.close()
            wake.close()
