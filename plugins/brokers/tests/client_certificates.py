"""Certificates of a server and a client, and a proxy that asks for the client's, for tests of receivers."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme


class Certificates:
    """Files of an authority, and of a server on this machine and a client that it vouches for.

    Args:
        folder: where the files are written.

    Attributes:
        authority: the authority's certificate.
        server: the server's certificate and key.
        client: the client's certificate and key.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        self.authority = str(folder / "authority.pem")
        self.server = str(folder / "server.pem")
        self.client = str(folder / "client.pem")
        authority.cert_pem.write_to_path(self.authority)
        for names, path in ((("127.0.0.1", "localhost"), self.server), (("client@example.org",), self.client)):
            authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(path)

    def context(self) -> ssl.SSLContext:
        """The context of a server that refuses clients without a certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.authority)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.server)
        return context


@contextmanager
def tls_proxy(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """Accept TLS connections on a port, which this yields, and connect each to a port of this machine."""

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
        try:
            yield proxy.server_address[1]
        finally:
            proxy.shutdown()
            thread.join()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Forward what one side sends until it ends; end both then."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
