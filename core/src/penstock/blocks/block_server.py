"""``BlockServer``: serves the blocks of this host to tasks on other hosts, for engines without a ReceiverTracker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from penstock.blocks.block_transfer import open_block
from penstock.conf import Settings
from penstock.wire.endpoint import Endpoint, Ports
from penstock.wire.token import Tls, Token

_PORT_ADVICE = (
    "The address must be this host's. spark.penstock.receiver.port and spark.port.maxRetries set the ports to try; "
    "0 of the former lets the system choose"
)


class BlockServer:
    """Serve blocks from construction until ``stop``. Tasks read them by ``read_block``, with the token.

    Args:
        host: the address to listen on, which other hosts reach.
        open_file: opens the file of a block by its id, on a thread of the server; raises ``BlockGoneError`` if there is
            none.
        conf: configuration by full key: ``spark.penstock.receiver.port``, ``spark.port.maxRetries`` and
            ``spark.penstock.wire.tls.…`` apply.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid, or a TLS file cannot be used.
        WireError: the address is not this host's, or every port is in use.
    """

    def __init__(
        self, host: str, open_file: Callable[[str], pa.ipc.RecordBatchFileReader], conf: Mapping[str, str] | None = None
    ) -> None:
        settings = Settings.parse(conf or {})
        #: What callers must show.
        self.token = Token.generate(Tls.of(settings))
        ports = Ports(settings.receiver_port, settings.port_max_retries, _PORT_ADVICE)
        self._endpoint = Endpoint(host, self.token, {}, partial(open_block, open_file), ports)
        #: ``grpc://host:port``, or ``grpc+tls://host:port``.
        self.location = self.token.location(host, self._endpoint.port)

    def stop(self) -> None:
        """Refuse new calls, finish those in progress, free the port. Idempotent."""
        self._endpoint.stop()
