"""Users, permissions and TLS, against brokers that ask for them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
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
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MosquittoServer, Path]]:
    """A broker with TLS for the name ``localhost``, and the file of its authority."""
    folder = tmp_path_factory.mktemp("encrypted")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    lines = [f"cafile {folder}/ca.pem", f"certfile {folder}/cert.pem", f"keyfile {folder}/key.pem"]
    with TlsServer("allow_anonymous true", *lines) as server:
        yield server, folder / "ca.pem"


class TlsServer(MosquittoServer):
    """Its answer is encrypted; it is ready when it accepts a connection."""

    def answers(self) -> bool:
        import socket

        socket.create_connection(("127.0.0.1", self.port), 1).close()
        return True


def test_tls_connects_to_a_server_that_its_authority_vouches_for(
    encrypted: tuple[MosquittoServer, Path], receive: Receive
) -> None:
    server, authority = encrypted
    harness = receive(read(server.port, "t", host="localhost", tls=True, tls_ca=str(authority)))
    harness.until(lambda: harness.info.source is not None)
    assert harness.errors == []


def test_tls_refuses_other_servers_and_names(encrypted: tuple[MosquittoServer, Path], receive: Receive) -> None:
    server, authority = encrypted
    receive(read(server.port, "t", host="localhost", tls=True)).until_error("certificate verify failed")
    receive(read(server.port, "t", host="127.0.0.1", tls=True, tls_ca=str(authority))).until_error("127.0.0.1")
