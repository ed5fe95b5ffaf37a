"""The same installed receivers serve a StreamingContext and a query; no stop of a query leaves a process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.helpers.java_options import DAEMON_FOLDER
from tests.helpers.plugin_folders import environment_with
from tests.helpers.processes import remaining_processes

pytestmark = [pytest.mark.spark, pytest.mark.programs]

PROGRAM = Path(__file__).with_name("both_engines.py")
EXAMPLE = Path(__file__).parents[3] / "examples" / "plugin"
LINES = ["a b", "c", "d e f"]


def serve(server: socket.socket) -> None:
    """Send the lines to each that connects, and keep the connection open."""
    accepted = []
    try:
        while True:
            peer, _address = server.accept()
            accepted.append(peer)
            peer.sendall("".join(f"{line}\n" for line in LINES).encode())
    except OSError:
        for peer in accepted:
            peer.close()


def test_receivers_give_the_same_records_to_both_engines_and_stops_leave_nothing(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    shutil.copytree(EXAMPLE / "src", plugin)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(EXAMPLE / name, plugin)
    environment = {**environment_with(plugin), "PYSPARK_PYTHON": sys.executable}
    # A query's workers get no configuration of executors, which names the folder of the tests' daemon.
    environment["PYTHONPATH"] += f"{os.pathsep}{DAEMON_FOLDER}"
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "errors").open("w+") as errors:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        program = subprocess.Popen(
            [sys.executable, PROGRAM, tmp_path, str(server.getsockname()[1])],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert program.stdout is not None
        try:
            in_streaming_context, after_spark_stop, in_query, waiting = (
                json.loads(program.stdout.readline() or "null") for _ in range(4)
            )
            assert waiting, (tmp_path / "errors").read_text()
            assert in_query == in_streaming_context
            assert in_query["socket"] == LINES
            assert in_query["ticker"] == [str(number) for number in range(20)]
            # Mostly below a second; this is a deadline for busy machines.
            assert after_spark_stop < 30
            os.killpg(program.pid, signal.SIGINT)
            program.wait(60)
            assert not remaining_processes(waiting, 30)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
            program.stdout.close()
