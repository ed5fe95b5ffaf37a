"""The feeder that serves records over HTTP or posts them: receivers of both kinds pass the checks with it."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from penstock import ReceiverStoppedError, ThreadReceiver
from penstock_testing import Capabilities, HttpFeeder, run_checks
from penstock_testing.check import checks_for

CHECKS = [check.id for check in checks_for("receiver") if check.kind == "receiver"]


class PollingReceiver(ThreadReceiver[Any]):
    """Asks for records and acknowledges them."""

    def __init__(self, feeder: HttpFeeder) -> None:
        self.url = str(feeder.options()["url"])

    def receive(self) -> None:
        while not self.wait(0.01):
            with urllib.request.urlopen(self.url, timeout=30) as response:
                answer = json.load(response)
            if answer["records"]:
                self.store_all([record for _, record in answer["records"]])
                positions = json.dumps([position for position, _ in answer["records"]]).encode()
                urllib.request.urlopen(self.url, positions, timeout=30).close()
            elif answer["end"]:
                self.stop("the source has ended")
                return


class WebhookReceiver(ThreadReceiver[Any]):
    """Is posted to; answers when a record is stored."""

    def __init__(self, feeder: HttpFeeder) -> None:
        self.address = (str(feeder.options()["host"]), int(feeder.options()["port"]))
        self.server: HTTPServer | None = None

    def receive(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                record = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    receiver.store_all([record])
                    self.send_response(204)
                except ReceiverStoppedError:
                    self.send_response(503)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                pass

        with HTTPServer(self.address, Handler) as server:
            self.server = server
            if not self.isStopped():
                threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
                self.wait(3600)
                server.shutdown()


def _get(feeder: HttpFeeder, query: str = "") -> Any:
    with urllib.request.urlopen(feeder.url + query, timeout=30) as response:
        return json.load(response)


def test_records_are_served_from_a_position_or_until_they_are_acknowledged() -> None:
    with HttpFeeder() as feeder:
        feeder.put(["a", {"b": 1}, None])
        assert _get(feeder) == {"records": [[0, "a"], [1, {"b": 1}], [2, None]], "end": False}
        assert _get(feeder, "?position=1&limit=1") == {"records": [[1, {"b": 1}]], "end": False}
        urllib.request.urlopen(feeder.url, b"[1, 0]", timeout=30).close()
        feeder.end()
        assert _get(feeder) == {"records": [[2, None]], "end": True}
        assert feeder.acknowledged() == [{"b": 1}, "a"]
        assert feeder.polls() == 3


def test_cut_server_refuses_connections_until_it_heals() -> None:
    with HttpFeeder() as feeder:
        feeder.cut()
        connection = http.client.HTTPConnection("127.0.0.1", feeder.port, timeout=30)
        with pytest.raises(ConnectionRefusedError):
            connection.request("GET", "/")
        feeder.heal()
        assert _get(feeder)["records"] == []


def test_polling_receiver_passes_every_check() -> None:
    capabilities = Capabilities(acknowledged=True, bounded=True)
    report = run_checks("receiver", PollingReceiver, HttpFeeder, CHECKS, capabilities=capabilities)
    assert report.failed == [], report.text()


def test_webhook_receiver_passes_every_check() -> None:
    capabilities = Capabilities(acknowledged=True)
    report = run_checks("receiver", WebhookReceiver, lambda: HttpFeeder(posts=True), CHECKS, capabilities=capabilities)
    assert report.failed == [], report.text()
