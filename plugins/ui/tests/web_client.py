"""Requests to a server of the tests."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

from penstock_ui.server import UIServer


def address(server: UIServer) -> tuple[str, int]:
    """Host and port of a server, to connect to."""
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def connect(server: UIServer) -> HTTPConnection:
    """A connection to a server."""
    return HTTPConnection(*address(server), timeout=10)


def request(
    server: UIServer, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[HTTPResponse, bytes]:
    """Send a request on a connection of its own, and read the response."""
    connection = connect(server)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()
