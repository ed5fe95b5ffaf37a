"""The receiver over TLS: it verifies the server's certificate, and presents its own. A proxy adds TLS to the server."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trustme

from penstock_testing import ReceiverHarness

if TYPE_CHECKING:
    from plugins.redis.tests.conftest import Stream


class Files:
    """Certificates of an authority, a server and a client."""

    def __init__(self, folder: Path, name: str) -> None:
        authority = trustme.CA()
        self.authority = str(folder / f"{name}-authority.pem")
        self.client = str(folder / f"{name}-client.pem")
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(self.context)
        authority.issue_cert("127.0.0.1").configure_cert(self.context)
        authority.cert_pem.write_to_path(self.authority)
        authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(self.client)


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def tls_proxy(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """Accept TLS connections on a port, and connect each to a port of this machine."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as client,
                socket.create_connection(("127.0.0.1", port)) as server,
            ):
                answers = threading.Thread(target=pump, args=(server, client))
                answers.start()
                pump(client, server)
                answers.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        yield proxy.server_address[1]
        proxy.shutdown()
        thread.join()


def test_tls(stream: Stream, tmp_path: Path, launch: Callable[..., ReceiverHarness]) -> None:
    files, others = Files(tmp_path, "own"), Files(tmp_path, "other")
    stream.add("a")
    with tls_proxy(files.context, stream.server.port) as port:

        def launched(authority: str) -> ReceiverHarness:
            return launch(stream.receiver(port=port, tls=True, tls_ca=authority, tls_certificate=files.client))

        trusted = launched(files.authority)
        trusted.until_records(["a"])
        unknown = launched(others.authority)
        unknown.until_error("certificate verify failed")
        missing = launched(str(tmp_path / "none"))
        missing.until_error("tls_ca=")
        for each in (trusted, unknown, missing):
            each.stop()
