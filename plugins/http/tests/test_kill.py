"""kill -9 of the receiver's process: what was answered with 200 is stored, and a sender that repeats loses nothing."""

from __future__ import annotations

import threading
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from plugins.brokers.tests.storing_process import stored, storing
from tests.helpers import wait_for

from penstock_brokers import free_port

_COUNT = 300


def test_kill_loses_no_request_that_was_answered(tmp_path: Path) -> None:
    port, answered = free_port(), list[str]()
    options = {"port": port, "columns": "value"}

    def send_all() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        for record in map(str, range(_COUNT)):
            while True:
                try:
                    connection.request("POST", "/", record)
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, HTTPException):
                    connection.close()
                    threading.Event().wait(0.02)
                    continue
                if answer.status == 200:
                    answered.append(record)
                    break
        connection.close()

    sender = threading.Thread(target=send_all)
    with storing("webhook", options, tmp_path) as process:
        sender.start()
        wait_for(lambda: len(answered) > 50, "answers")
        process.kill()
        process.wait()
    before = set(answered)
    assert before <= set(stored(tmp_path))
    with storing("webhook", options, tmp_path):
        sender.join(100)
    assert len(answered) == _COUNT
    assert set(stored(tmp_path)) == set(answered)
    # The one that was stored, and not answered, comes twice.
    assert len(stored(tmp_path)) <= _COUNT + 1
