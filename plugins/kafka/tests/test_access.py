"""Certificates and logins: a proxy that asks for both is before Tansu, and every client goes through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from plugins.brokers.tests.client_certificates import Certificates
from plugins.kafka.tests.secure_proxy import SecureProxy
from plugins.kafka.tests.tansu import Tansu

from penstock_brokers import Secret
from penstock_kafka import KafkaOptions, KafkaReceiver, client_configuration
from penstock_testing import ReceiverHarness

USER, PASSWORD = "reader", "hunter2"


class Access:
    """A server, and files with the secrets of its clients."""

    def __init__(self, folder: Path, files: Certificates, port: int) -> None:
        self.folder = folder
        self.files = files
        self.port = port

    def options(self, topic: str, **options: Any) -> KafkaOptions:
        given = {"group_id": f"readers-of-{topic}", "sasl_mechanism": "SCRAM-SHA-512", **options}
        password = Secret(f"file:{self.folder / given.pop('password', 'password')}")
        settings = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}
        return KafkaOptions(
            bootstrap_servers=f"127.0.0.1:{self.port}",
            topics=(topic,),
            tls=True,
            tls_ca=given.pop("authority", self.files.authority),
            tls_certificate=given.pop("certificate", self.files.client),
            sasl_user=USER,
            sasl_password=password,
            settings=settings,
            **given,
        )

    def put(self, topic: str, *values: str) -> None:
        """Create a topic with records."""
        connection = client_configuration.connection(self.options(topic))
        admin = AdminClient(connection)
        for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
            created.result(30)
        producer = Producer({**connection, "linger.ms": 0})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    import pandas  # noqa: F401  # a start of a receiver imports it, and has a deadline

    folder = tmp_path_factory.mktemp("access")
    files = Certificates(folder / "own")
    (folder / "password").write_text(f"{PASSWORD}\n")
    (folder / "wrong").write_text("hunter3\n")
    proxy = SecureProxy(files.context(), {USER: PASSWORD})
    with Tansu(advertised_port=proxy.port) as tansu, proxy.serving(tansu.port):
        yield Access(folder, files, proxy.port)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_receiver_logs_in_over_tls_with_a_password_of_a_file(access: Access, mechanism: str) -> None:
    topic = f"logins-{mechanism}"
    access.put(topic, "a", "b")
    with ReceiverHarness(KafkaReceiver(access.options(topic, sasl_mechanism=mechanism))) as harness:
        harness.until(lambda: harness.count >= 2, 40)
        assert harness.records == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"password": "wrong"}, "check sasl_mechanism, sasl_user and sasl_password"),
        ({"password": "wrong", "sasl_mechanism": "PLAIN"}, "check sasl_mechanism, sasl_user and sasl_password"),
        # The server ends the connection after the handshake, in which a client of TLS 1.3 does not wait for it.
        ({"certificate": ""}, "brokers are down"),
    ],
)
def test_refused_client_reports_what_to_check_and_no_password(
    access: Access, options: dict[str, str], error: str
) -> None:
    with ReceiverHarness(KafkaReceiver(access.options("refused", **options))) as harness:
        harness.until_error(error)
        assert not any("hunter" in reported for reported in harness.errors)


def test_server_of_another_authority_is_refused(access: Access, tmp_path: Path) -> None:
    other = Certificates(tmp_path)
    with ReceiverHarness(KafkaReceiver(access.options("refused", authority=other.authority))) as harness:
        harness.until_error("check tls, tls_ca and the broker's certificate")
