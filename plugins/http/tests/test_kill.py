"""kill -9 of the receiver's process: what was answered with 200 is stored, and a sender that repeats loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.helpers import wait_for

from penstock_brokers import free_port

_COUNT = 300


@contextmanager
def storing_process(port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = Path(__file__).with_name("storing_process.py")
    process = subprocess.Popen([sys.executable, program, str(port), str(folder)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stored(folder: Path) -> list[str]:
    path = folder / "blocks"
    text = path.read_text() if path.exists() else ""
    # The process may have been killed in the last line.
    return [record for line in text[: text.rfind("\n") + 1].splitlines() for record in json.loads(line)]


def test_kill_loses_no_request_that_was_answered(tmp_path: Path) -> None:
    port, answered = free_port(), list[str]()

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
    with storing_process(port, tmp_path) as process:
        sender.start()
        wait_for(lambda: len(answered) > 50, "answers")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = set(answered)
    assert before <= set(stored(tmp_path))
    with storing_process(port, tmp_path):
        sender.join(100)
    assert len(answered) == _COUNT
    assert set(stored(tmp_path)) == set(answered)
    # The one that was stored, and not answered, comes twice.
    assert len(stored(tmp_path)) <= _COUNT + 1
