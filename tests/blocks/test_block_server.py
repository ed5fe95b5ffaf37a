"""``BlockServer``: tasks on other hosts fetch blocks, over TLS and from a fixed port where that is configured."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.blocks.arrow_form import open_block_file, write_block_file
from penstock.errors import BlockGoneError, ConfigurationError, WireError
from penstock.spi import BlockReference, BlockServer, read_block
from penstock.wire.token import Tls

Serve = Callable[[Mapping[str, str]], BlockServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with (tmp_path / "b1").open("wb") as file:
        write_block_file(pa.table({"value": ["a"]}), file)
    servers: list[BlockServer] = []

    def serve(conf: Mapping[str, str]) -> BlockServer:
        servers.append(BlockServer("127.0.0.1", lambda block_id: open_block_file(str(tmp_path / block_id)), conf))
        return servers[-1]

    yield serve
    for server in servers:
        server.stop()


def fetched(server: BlockServer, block_id: str = "b1") -> list[str]:
    reference = BlockReference(block_id, "/elsewhere/b1", 1, server.location)
    return [value for batch in read_block(reference, server.token) for value in batch.column(0).to_pylist()]


def test_tasks_fetch_blocks_and_a_missing_one_is_an_error(serve: Serve) -> None:
    server = serve({})
    assert server.location.startswith("grpc://127.0.0.1:")
    assert fetched(server) == ["a"]
    with pytest.raises(BlockGoneError, match="b2"):
        fetched(server, "b2")


def test_configured_certificates_are_used(serve: Serve, make_tls: Callable[[str], Tls]) -> None:
    tls = make_tls("ours")
    names = ("certificate", "key", "authority")
    configured = {f"spark.penstock.wire.tls.{name}": getattr(tls, name) for name in names}
    server = serve(configured)
    assert server.location.startswith("grpc+tls://127.0.0.1:")
    assert fetched(server) == ["a"]
    with pytest.raises(ConfigurationError, match=r"tls\.certificate='/no/such.pem' cannot be read"):
        serve({**configured, "spark.penstock.wire.tls.certificate": "/no/such.pem"})


def test_a_configured_port_is_used_and_one_in_use_is_named(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        conf = {"spark.penstock.receiver.port": str(port), "spark.port.maxRetries": "0"}
        with pytest.raises(WireError, match=rf"port {port}: .*spark\.penstock\.receiver\.port"):
            serve(conf)
    server = serve(conf)
    assert server.location == f"grpc://127.0.0.1:{port}"
    assert fetched(server) == ["a"]
