"""``SecureProxy``: TLS and SASL before a server of the Kafka protocol that has neither.

It decrypts, answers the requests of a login itself, and passes everything else on once the login is right.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
_SASL_AUTHENTICATION_FAILED = 58
_ITERATIONS = 4096
#: The server's side of a login: gets the messages of a client, and yields the answers; the first one is none.
Exchange = Generator[bytes, bytes, None]


class LoginError(Exception):
    """The credentials are wrong."""


def plain(passwords: Mapping[str, str]) -> Exchange:
    """The server's side of PLAIN."""
    message = yield b""
    _, user, password = message.decode().split("\0")
    if passwords.get(user) != password:
        raise LoginError
    yield b""


def scram(passwords: Mapping[str, str], algorithm: str) -> Exchange:
    """The server's side of SCRAM (RFC 5802)."""
    first = (yield b"").decode().split(",", 2)[2]
    fields = dict(part.split("=", 1) for part in first.split(","))
    salt = os.urandom(16)
    challenge = f"r={fields['r']}{os.urandom(9).hex()},s={base64.b64encode(salt).decode()},i={_ITERATIONS}"
    final = (yield challenge.encode()).decode()
    bare, _, proof = final.rpartition(",p=")
    salted = hashlib.pbkdf2_hmac(algorithm, passwords.get(fields["n"], "").encode(), salt, _ITERATIONS)
    exchange = f"{first},{challenge},{bare}".encode()
    key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, key).digest(), exchange, algorithm)
    if bytes(a ^ b for a, b in zip(key, signature, strict=True)) != base64.b64decode(proof):
        raise LoginError
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    yield b"v=" + base64.b64encode(hmac.digest(server_key, exchange, algorithm))


def exchange_of(mechanism: str, passwords: Mapping[str, str]) -> Exchange:
    if mechanism == "PLAIN":
        return plain(passwords)
    return scram(passwords, {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism])


def read_exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the connection has ended")
        data += part
    return data


def read_frame(connection: socket.socket) -> bytes:
    return read_exactly(connection, *struct.unpack(">i", read_exactly(connection, 4)))


def write_frame(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def log_in(client: socket.socket, server: socket.socket, passwords: Mapping[str, str]) -> None:
    """Answer the requests of a client until it has logged in."""
    exchange: Exchange | None = None
    while True:
        request = read_frame(client)
        api, version, correlation, name_length = struct.unpack_from(">hhih", request)
        body = request[10 + max(name_length, 0) :]
        if api == API_VERSIONS:
            write_frame(server, request)
            write_frame(client, read_frame(server))
        elif api == SASL_HANDSHAKE:
            mechanism = body[2:]
            exchange = exchange_of(mechanism.decode(), passwords)
            next(exchange)
            write_frame(client, struct.pack(">ihih", correlation, 0, 1, len(mechanism)) + mechanism)
        else:
            assert api == SASL_AUTHENTICATE, f"the request {api} came before the login"
            assert exchange is not None
            lifetime = struct.pack(">q", 0) if version >= 1 else b""
            try:
                answer = exchange.send(body[4:])
            except LoginError:
                reason = b"invalid credentials"
                error = struct.pack(">ihh", correlation, _SASL_AUTHENTICATION_FAILED, len(reason)) + reason
                write_frame(client, error + struct.pack(">i", 0) + lifetime)
                raise
            write_frame(client, struct.pack(">ihhi", correlation, 0, -1, len(answer)) + answer + lifetime)
            if not answer or answer.startswith(b"v="):
                return


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class SecureProxy:
    """Accepts TLS connections of clients that log in.

    Args:
        context: the certificate.
        passwords: of users.
    """

    def __init__(self, context: ssl.SSLContext, passwords: Mapping[str, str]) -> None:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with (
                    suppress(OSError, LoginError),
                    context.wrap_socket(self.request, server_side=True) as client,
                    socket.create_connection(("127.0.0.1", proxy.server_port)) as server,
                ):
                    log_in(client, server, passwords)
                    answers = threading.Thread(target=pump, args=(server, client))
                    answers.start()
                    pump(client, server)
                    answers.join()

        self._listener = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._listener.server_address[1])
        #: The port of the server.
        self.server_port = 0

    @contextmanager
    def serving(self, server_port: int) -> Iterator[None]:
        self.server_port = server_port
        thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            self._listener.shutdown()
            thread.join()
            self._listener.server_close()
