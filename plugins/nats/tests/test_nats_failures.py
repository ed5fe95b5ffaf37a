"""The receiver ``nats`` when something is wrong: each error says what happened and what to do, and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DiscardPolicy, StreamConfig
from plugins.brokers.tests.client_certificates import Certificates
from plugins.nats.tests.js_stream import JsStream

from penstock_brokers import free_port
from penstock_nats.nats_server import NatsServer
from penstock_testing import ReceiverHarness

Launch = Callable[..., ReceiverHarness]
QUICK = {"spark.streaming.blockInterval": "20ms", "spark.streaming.receiverRestartDelay": "50ms"}


def first_error(harness: ReceiverHarness) -> str:
    harness.until(lambda: harness.errors)
    return harness.errors[0]


def test_server_that_is_away_at_the_start_is_reported_and_waited_for(launch: Launch) -> None:
    server = NatsServer()
    with server:
        stream = JsStream(server, "s")
        server.kill()
        harness = launch(stream.receiver(), settings=QUICK)
        assert f"NATS at nats://127.0.0.1:{server.port}: ConnectionRefusedError" in first_error(harness)
        server.start()
        stream.publish("1")
        harness.until_count(1)
        harness.stop()


def test_all_servers_are_tried(stream: JsStream, launch: Launch) -> None:
    stream.publish("1")
    servers = f"nats://127.0.0.1:{free_port()},{stream.server.url}"
    harness = launch(stream.receiver(servers=servers), settings=QUICK)
    harness.until_count(1)
    assert harness.errors == []


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_server_that_ends_loses_nothing(server: NatsServer, launch: Launch, end: str) -> None:
    stream = JsStream(server, "s")
    stream.publish(*map(str, range(100)))
    harness = launch(stream.receiver(ack_wait=1.0), settings=QUICK)
    harness.until_count(100)
    getattr(server, end)()
    assert "NATS at" in first_error(harness)
    server.start()
    stream.publish(*map(str, range(100, 200)))
    harness.until(lambda: stream.is_acknowledged(200))
    assert sorted(set(harness.records), key=int) == [str(number) for number in range(200)]
    harness.stop()


def test_unknown_stream_is_named_and_waited_for(stream: JsStream, launch: Launch) -> None:
    later = f"{stream.name}-later"
    harness = launch(stream.receiver(stream=later), settings=QUICK)
    assert f"has no stream '{later}': create it, or correct the option stream" in first_error(harness)
    other = JsStream(stream.server, later)
    other.publish("1")
    harness.until_count(1)


@pytest.mark.parametrize(
    ("deleted", "message"), [("consumer", "the consumer 'c' .* was deleted"), ("stream", "no stream")]
)
def test_what_is_deleted_meanwhile_is_reported_and_the_consumer_created_again(
    stream: JsStream, launch: Launch, deleted: str, message: str
) -> None:
    stream.publish("1")
    harness = launch(stream.receiver(), settings=QUICK)
    harness.until(lambda: stream.is_acknowledged(1))
    if deleted == "consumer":
        stream.ask(lambda js: js.delete_consumer(stream.name, "c"))
    else:
        stream.ask(lambda js: js.delete_stream(stream.name))
    assert re.search(message, first_error(harness))
    if deleted == "stream":
        stream.create()
    stream.publish("2")
    harness.until(lambda: harness.records[-1] == "2")


def test_unsuitable_consumer_is_refused_by_the_receiver(stream: JsStream, launch: Launch) -> None:
    stream.ask(lambda js: js.add_consumer(stream.name, ConsumerConfig(durable_name="c", max_deliver=2)))
    harness = launch(stream.receiver(), settings=QUICK)
    assert "drops messages after 2 deliveries (max_deliver)" in first_error(harness)


def test_dead_letters_without_a_stream_are_refused_before_a_message_is_read(stream: JsStream, launch: Launch) -> None:
    stream.publish("1")
    harness = launch(stream.receiver(dead_letter="nowhere.all"), settings=QUICK)
    assert "takes the subject 'nowhere.all': create one for the dead letters" in first_error(harness)
    own = launch(stream.receiver(consumer="d", dead_letter=f"{stream.name}.dead"), settings=QUICK)
    assert "belongs to the stream" in first_error(own)
    assert harness.records == own.records == []


def test_full_stream_of_dead_letters_loses_nothing(stream: JsStream, launch: Launch) -> None:
    full = f"{stream.name}-dead"

    def dead(js: JetStreamContext, max_msgs: int) -> Any:
        config = StreamConfig(name=full, subjects=[f"{full}.*"], max_msgs=max_msgs, discard=DiscardPolicy.NEW)
        return js.add_stream(config) if max_msgs == 1 else js.update_stream(config)

    stream.ask(lambda js: dead(js, 1))
    stream.ask(lambda js: js.publish(f"{full}.all", b"there"))
    harness = launch(stream.receiver(dead_letter=f"{full}.all", ack_wait=1), settings=QUICK)
    stream.publish(b"\xff")
    harness.until_error(f"did not take {stream.name}/1 {stream.name}.a, which stays where it is: maximum messages")
    assert not stream.is_acknowledged(1)
    stream.ask(lambda js: dead(js, 2))
    harness.until(lambda: stream.is_acknowledged(1))
    assert stream.ask(lambda js: js.get_msg(full, 2)).data == b"\xff"


def test_messages_that_the_stream_has_deleted_are_skipped(stream: JsStream, launch: Launch) -> None:
    stream.publish("1")
    harness = launch(stream.receiver(), settings=QUICK)
    harness.until(lambda: stream.is_acknowledged(1))
    harness.stop()
    stream.publish("2", "3")
    stream.ask(lambda js: js.purge_stream(stream.name))
    stream.publish("4")
    again = launch(stream.receiver(), settings=QUICK)
    again.until_count(1)
    assert (again.records, again.errors) == (["4"], [])


# -- who may connect --

USERS = """
authorization { users = [
    { user: admin, password: "admin-secret" },
    { user: reader, password: "reader-secret", permissions: { publish: "nothing.at.all" } },
] }
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[NatsServer]:
    with NatsServer(USERS) as server:
        yield server


@pytest.mark.parametrize(
    ("user", "password", "message"),
    [
        ("admin", "wrong-password", "refused the credentials: check the options user and password, token, or creds"),
        ("reader", "reader-secret", "does not permit what the receiver needs"),
    ],
)
def test_wrong_credentials_are_an_error_without_the_password(
    guarded: NatsServer, launch: Launch, monkeypatch: pytest.MonkeyPatch, user: str, password: str, message: str
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_PASSWORD", password)
    options = {"user": user, "password": "env:PENSTOCK_TEST_PASSWORD", "connect_timeout": 1.0}
    receiver = JsStream(guarded, "s", exists=True).receiver(**options)
    harness = launch(receiver, settings=QUICK)
    harness.until(lambda: any(message in error for error in harness.errors))
    assert not any(password in text for text in [*harness.errors, *harness.tracebacks])


def test_secret_that_is_missing_is_an_error_that_says_where(guarded: NatsServer, launch: Launch) -> None:
    receiver = JsStream(guarded, "s", exists=True).receiver(user="admin", password="file:/no/such/secret")
    assert "the file /no/such/secret with a secret cannot be read" in first_error(launch(receiver, settings=QUICK))


def test_creds_file_that_is_missing_is_named(stream: JsStream, launch: Launch) -> None:
    harness = launch(stream.receiver(creds="/no/such.creds"), settings=QUICK)
    assert "creds='/no/such.creds' is no file where the receiver runs" in first_error(harness)


def test_both_sides_have_certificates_and_foreign_ones_are_refused(launch: Launch, tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    paths = f'cert_file: "{files.server}", key_file: "{files.server}", ca_file: "{files.authority}"'
    (tmp_path / "token").write_text("tok\n")
    with NatsServer(f"tls {{ {paths}, verify: true }}\nauthorization {{ token: tok }}") as server:
        stream = JsStream(server, "s", exists=True)
        options = {"token": f"file:{tmp_path / 'token'}", "tls": True}
        trusting = {**options, "tls_ca": files.authority}
        trusted = launch(stream.receiver(**trusting, tls_certificate=files.client), settings=QUICK)
        assert "has no stream 's'" in first_error(trusted)
        anonymous = launch(stream.receiver(**trusting), settings=QUICK)
        assert "has no stream" not in first_error(anonymous)
        foreign = launch(stream.receiver(**options), settings=QUICK)
        assert "certificate verify failed" in first_error(foreign)
        for each in (trusted, anonymous, foreign):
            each.stop()
