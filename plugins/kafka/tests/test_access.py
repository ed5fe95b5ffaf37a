"""TLS and logins: a proxy that has both is before Tansu, and every client goes through it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from plugins.kafka.tests.secure_proxy import SecureProxy
from plugins.kafka.tests.tansu import Tansu

from penstock_brokers import Secret
from penstock_kafka import KafkaOptions, KafkaReceiver, client_configuration
from penstock_testing import ReceiverHarness

USER, PASSWORD = "reader", "hunter2"


class Access:
    """A server, and files with the secrets of its clients."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    def options(self, topic: str, **options: Any) -> KafkaOptions:
        given = {"group_id": f"readers-of-{topic}", "sasl_mechanism": "SCRAM-SHA-512", **options}
        password = Secret(f"file:{self.folder / given.pop('password', 'password')}")
        settings = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}
        return KafkaOptions(
            bootstrap_servers=f"127.0.0.1:{self.port}",
            topics=(topic,),
            tls=True,
            tls_ca=str(self.folder / given.pop("authority", "authority.pem")),
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
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "other.pem"))
    (folder / "password").write_text(f"{PASSWORD}\n")
    (folder / "wrong").write_text("hunter3\n")
    proxy = SecureProxy(context, {USER: PASSWORD})
    with Tansu(advertised_port=proxy.port) as tansu, proxy.serving(tansu.port):
        yield Access(folder, proxy.port)


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
        ({"authority": "other.pem"}, "check tls, tls_ca and the broker's certificate"),
    ],
)
def test_refused_client_reports_what_to_check_and_no_password(
    access: Access, options: dict[str, str], error: str
) -> None:
    with ReceiverHarness(KafkaReceiver(access.options("refused", **options))) as harness:
        harness.until_error(error)
        assert not any("hunter" in reported for reported in harness.errors)
