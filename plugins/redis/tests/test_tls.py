"""The receiver over TLS: it verifies the server's certificate, and presents its own. A proxy adds TLS to the server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from plugins.brokers.tests.client_certificates import Certificates, tls_proxy

from penstock_testing import ReceiverHarness

if TYPE_CHECKING:
    from plugins.redis.tests.conftest import Stream


def test_tls(stream: Stream, tmp_path: Path, launch: Callable[..., ReceiverHarness]) -> None:
    own, other = Certificates(tmp_path / "own"), Certificates(tmp_path / "other")
    stream.add("a")
    with tls_proxy(own.context(), stream.server.port) as port:

        def launched(authority: str) -> ReceiverHarness:
            return launch(stream.receiver(port=port, tls=True, tls_ca=authority, tls_certificate=own.client))

        trusted = launched(own.authority)
        trusted.until_records(["a"])
        unknown = launched(other.authority)
        unknown.until_error("certificate verify failed")
        missing = launched(str(tmp_path / "none"))
        missing.until_error("tls_ca=")
        for each in (trusted, unknown, missing):
            each.stop()
