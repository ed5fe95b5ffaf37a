"""The receivers of this distribution pass the conformance checks."""

from __future__ import annotations

from penstock_socket.conformance import RawSocketSuite, SocketStreamSuite, SocketSuite


class TestSocket(SocketSuite):
    pass


class TestRawSocket(RawSocketSuite):
    pass


class TestSocketStream(SocketStreamSuite):
    pass
