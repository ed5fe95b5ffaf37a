"""Users, permissions and TLS, against brokers that ask for them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugins.brokers.tests.client_certificates import Certificates
from plugins.mqtt.tests.conftest import Receive, read

from penstock_mqtt.mosquitto_server import MosquittoServer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoServer]:
    """A broker whose user ``reader`` may read ``open`` only."""
    folder = tmp_path_factory.mktemp("guarded")
    passwords, rights = folder / "passwords", folder / "rights"
    subprocess.run(["mosquitto_passwd", "-b", "-c", passwords, "reader", "right"], check=True)
    rights.write_text("user reader\ntopic read open\n")
    rights.chmod(0o600)
    with MosquittoServer("allow_anonymous false", f"password_file {passwords}", f"acl_file {rights}") as server:
        yield server


def test_wrong_password_is_reported_without_it(
    guarded: MosquittoServer, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQTT_PASSWORD", "wrong-password")
    harness = receive(read(guarded.port, "open", user="reader", password="env:MQTT_PASSWORD"))
    harness.until_error("refuses the client: Not authorized")
    assert "wrong-password" not in str(harness.errors)


def test_right_password_is_read_from_a_file(guarded: MosquittoServer, receive: Receive, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("right\n")
    harness = receive(read(guarded.port, "open", user="reader", password=f"file:{tmp_path / 'password'}"))
    harness.until(lambda: harness.info.source is not None)
    assert harness.errors == []


def test_missing_secret_is_reported_by_its_reference(guarded: MosquittoServer, receive: Receive) -> None:
    receive(read(guarded.port, "open", user="reader", password="env:NOT_SET")).until_error("NOT_SET")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MosquittoServer, Certificates]]:
    """A broker that refuses clients without a certificate, and the certificates."""
    files = Certificates(tmp_path_factory.mktemp("encrypted"))
    lines = [f"cafile {files.authority}", f"certfile {files.server}", f"keyfile {files.server}"]
    with TlsServer("allow_anonymous true", "require_certificate true", *lines) as server:
        yield server, files


class TlsServer(MosquittoServer):
    """Its answer is encrypted; it is ready when it accepts a connection."""

    def answers(self) -> bool:
        import socket

        socket.create_connection(("127.0.0.1", self.port), 1).close()
        return True


def test_tls_connects_both_sides_by_their_certificates(
    encrypted: tuple[MosquittoServer, Certificates], receive: Receive
) -> None:
    server, files = encrypted
    given = {"host": "localhost", "tls": True, "tls_ca": files.authority, "tls_certificate": files.client}
    harness = receive(read(server.port, "t", **given))
    harness.until(lambda: harness.info.source is not None)
    assert harness.errors == []


def test_broker_refuses_a_client_without_a_certificate(
    encrypted: tuple[MosquittoServer, Certificates], receive: Receive
) -> None:
    server, files = encrypted
    harness = receive(read(server.port, "t", host="localhost", tls=True, tls_ca=files.authority))
    harness.until_error(f"localhost:{server.port}")
    assert harness.info.source is None


def test_tls_refuses_other_servers_and_names(
    encrypted: tuple[MosquittoServer, Certificates], receive: Receive, tmp_path: Path
) -> None:
    server, files = encrypted
    receive(read(server.port, "t", host="localhost", tls=True)).until_error("certificate verify failed")
    other = Certificates(tmp_path)
    trusting = {"tls": True, "tls_ca": other.authority, "tls_certificate": other.client}
    receive(read(server.port, "t", host="localhost", **trusting)).until_error("certificate verify failed")
    own = {"tls": True, "tls_ca": files.authority, "tls_certificate": files.client}
    receive(read(server.port, "t", host="127.0.0.2", **own)).until_error("127.0.0.2")
