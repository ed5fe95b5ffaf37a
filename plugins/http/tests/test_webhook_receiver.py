"""The receiver ``webhook`` with real requests: when it answers with what."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock import SourceStatus
from penstock_brokers import Secret, free_port
from penstock_http import WebhookOptions
from penstock_http.signatures import code_of
from penstock_http.webhook_receiver import WebhookReceiver
from penstock_testing import ReceiverHarness

Launch = Callable[..., ReceiverHarness]
_INITIAL_RATE = "spark.streaming.backpressure.initialRate"


def status(launched: ReceiverHarness) -> SourceStatus:
    return launched.info.source or SourceStatus()


class Answer:
    """The answer to a request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = json.loads(body) if status != 404 and status != 405 else None


class Sender:
    """Sends requests to a port, on which a receiver listens soon."""

    def __init__(self) -> None:
        self.port = free_port()
        self.context: ssl.SSLContext | None = None
        self._pool = ThreadPoolExecutor(64)

    def options(self, **values: Any) -> WebhookOptions:
        return WebhookOptions(**{"port": self.port, "columns": ("value",), "value_as": "text", "linger": 0.0, **values})

    def receiver(self, **values: Any) -> WebhookReceiver:
        return WebhookReceiver(self.options(**values))

    def send(
        self, body: bytes | Iterator[bytes] = b"", path: str = "/", method: str = "POST", **headers: str
    ) -> Answer:
        """Send a request, as soon as somebody listens."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        while True:
            connection = (
                HTTPSConnection("localhost", self.port, timeout=30, context=self.context)
                if self.context
                else HTTPConnection("127.0.0.1", self.port, timeout=30)
            )
            try:
                connection.request(method, path, body, names)
                answer = connection.getresponse()
                return Answer(answer.status, dict(answer.headers), answer.read())
            except ConnectionRefusedError:
                threading.Event().wait(0.01)
            finally:
                connection.close()

    def send_soon(self, body: bytes, **headers: str) -> Future[Answer]:
        return self._pool.submit(self.send, body, **headers)

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def sender(launch: Launch) -> Iterator[Sender]:
    sender = Sender()
    yield sender
    sender.close()


def secret(folder: Path, text: str) -> Secret:
    path = folder / text
    path.write_text(text)
    return Secret(f"file:{path}")


def test_request_is_answered_once_it_is_stored(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver())
    assert sender.send(b"a").status == 200
    assert launched.records == ["a"]
    launched.hold()
    waiting = sender.send_soon(b"b")
    launched.until(lambda: launched.offers == 2)
    assert not waiting.done()
    launched.accept()
    answer = waiting.result()
    assert (answer.status, answer.body) == (200, {"stored": 1})
    assert launched.records == ["a", "b"]


def test_request_that_cannot_be_stored_is_answered_with_503(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver(), settings={"spark.penstock.receiver.storeRetries": "0"})
    launched.refuse()
    answer = sender.send(b"a")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    launched.until_error("1 requests could not be stored: StoreError")
    launched.accept()
    assert sender.send(b"a").status == 200
    assert launched.records == ["a"]


def test_requests_that_come_meanwhile_share_a_block(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver(max_wait=3600), settings={_INITIAL_RATE: "0.1"})
    assert sender.send(b"first").status == 200
    held = sender.send_soon(b"held")
    launched.until(lambda: status(launched).oldest_unacknowledged_s)
    others = [sender.send_soon(str(number).encode()) for number in range(50)]
    launched.until(lambda: status(launched).lag_messages == 50)
    launched.update_rate(None)
    assert {answer.result().status for answer in (held, *others)} == {200}
    assert [block.num_records for block in launched.blocks] == [1, 1, 50]


def test_records_of_a_body(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver(records="auto"))
    assert sender.send(b"[1, 2]", Content_Type="application/json").body == {"stored": 2}
    assert sender.send(b"3\n\n4\n", Content_Type="application/x-ndjson").body == {"stored": 2}
    assert sender.send(b"[]", Content_Type="application/json").body == {"stored": 0}
    assert launched.records == ["1", "2", "3", "4"]


def test_columns_of_a_request(sender: Sender, launch: Launch) -> None:
    columns = ("value", "method", "path", "query", "headers", "remote")
    launched = launch(sender.receiver(columns=columns, path="/in", method="PUT"))
    assert (
        sender.send(b"a", "/in?x=1", "PUT", X_Event="push", Authorization="Basic hidden", Cookie="hidden").status == 200
    )
    (row,) = launched.records
    assert tuple(row)[:4] == ("a", "PUT", "/in", "x=1")
    assert row.remote == "127.0.0.1"
    headers = dict(row.headers)
    assert headers["x-event"] == "push"
    assert not {"authorization", "cookie"} & headers.keys()


def test_other_paths_and_methods_are_refused(sender: Sender, launch: Launch) -> None:
    launch(sender.receiver(path="/in"))
    assert sender.send(b"a").status == 404
    assert sender.send(b"", "/in", "GET").status == 405


def test_token(sender: Sender, launch: Launch, tmp_path: Path) -> None:
    launched = launch(sender.receiver(token=secret(tmp_path, "right")))
    assert sender.send(b"a").status == 401
    assert sender.send(b"b", Authorization="Bearer wrong").status == 401
    assert sender.send(b"c", Authorization="Bearer right").status == 200
    launched.until_records(["c"])
    launched.until_error("requests answered with 401, the header Authorization has no valid token: ")
    assert "right" not in str(launched.errors)


def test_signature(sender: Sender, launch: Launch, tmp_path: Path) -> None:
    launched = launch(sender.receiver(signature="github", signature_key=secret(tmp_path, "key")))
    signature = f"sha256={code_of(b'key', b'a')}"
    assert sender.send(b"a", X_Hub_Signature_256=signature).status == 200
    assert sender.send(b"b", X_Hub_Signature_256=signature).status == 401
    assert sender.send(b"c").status == 401
    assert launched.records == ["a"]


def test_oversized_body_is_answered_with_413(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver(max_body_bytes=10))
    assert sender.send(b"x" * 11).status == 413
    # Without a length, chunk by chunk.
    assert sender.send(iter([b"x" * 6, b"x" * 6])).status == 413
    assert sender.send(b"x" * 10).status == 200
    launched.until_error("requests answered with 413, a body has more than 10 bytes (max_body_bytes)")


def test_body_that_cannot_be_decoded_is_answered_with_400(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver(value_as="json"))
    assert sender.send(b"{").status == 400
    assert sender.send(b"{}").status == 200
    launched.until_error("requests answered with 400, the body cannot be read")


def test_rate_limit_is_answered_with_429(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver(max_wait=0.3), settings={_INITIAL_RATE: "0.1"})
    assert sender.send(b"a").status == 200
    # It waits in the store for its permit, the next one too long in the queue.
    held = sender.send_soon(b"b")
    launched.until(lambda: status(launched).oldest_unacknowledged_s)
    answer = sender.send(b"c")
    assert (answer.status, answer.body) == (429, {"error": "the rate limit is 0.1 records/s"})
    assert int(answer.headers["Retry-After"]) >= 1
    launched.update_rate(None)
    assert held.result().status == 200
    assert sender.send(b"d").status == 200
    assert launched.records == ["a", "b", "d"]


def test_stop_answers_waiting_requests(sender: Sender, launch: Launch) -> None:
    launched = launch(sender.receiver(max_wait=3600), settings={_INITIAL_RATE: "0.01"})
    assert sender.send(b"a").status == 200
    held = sender.send_soon(b"b")
    launched.until(lambda: status(launched).oldest_unacknowledged_s)
    waiting = sender.send_soon(b"c")
    launched.until(lambda: status(launched).lag_messages == 1)
    launched.stop()
    assert [answer.result().status for answer in (held, waiting)] == [503, 503]
    assert launched.records == ["a"]


def test_port_in_use_is_reported_until_it_is_free(sender: Sender, launch: Launch) -> None:
    first, second = launch(sender.receiver()), launch(sender.receiver())
    assert sender.send(b"a").status == 200
    taken = second if first.records else first
    taken.until_error(f"cannot listen on 127.0.0.1:{sender.port}")
    (first if first.records else second).stop()
    taken.until(lambda: sender.send(b"b").status == 200)
    assert "b" in taken.records


def test_tls(sender: Sender, launch: Launch, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    sender.context = ssl.create_default_context()
    authority.configure_trust(sender.context)
    launched = launch(sender.receiver(tls_certificate=str(certificate)))
    assert sender.send(b"a").status == 200
    assert launched.records == ["a"]


def test_missing_certificate_is_reported(sender: Sender, launch: Launch, tmp_path: Path) -> None:
    launched = launch(sender.receiver(tls_certificate=str(tmp_path / "none.pem")))
    launched.until_error("cannot be read where the receiver runs: No such file or directory")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0"}, "anybody could send to host='0.0.0.0': set token or signature, or anonymous=true"),
        ({"signature": "github"}, "signature_key and signature must be given together"),
        ({"signature_key": Secret("env:K")}, "signature_key and signature must be given together"),
        ({"path": "in"}, "path"),
        ({"method": "GET"}, "method"),
    ],
)
def test_options_that_contradict_each_other(sender: Sender, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        sender.options(**options)


def test_listening_beyond_this_machine_is_allowed_with_a_token(sender: Sender) -> None:
    for options in (
        {"token": Secret("env:T")},
        {"signature": "stripe", "signature_key": Secret("env:K")},
        {"anonymous": True},
    ):
        assert sender.options(host="::", **options)
    for host in ("localhost", "127.0.0.2", "::1"):
        assert sender.options(host=host)
