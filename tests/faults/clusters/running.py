"""A program that runs on a cluster in a process of its own, and its configuration."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.helpers import wait_for


class Running:
    """A program that runs in a process of its own."""

    def __init__(self, command: Sequence[str | Path], folder: Path, python: str) -> None:
        self.output = folder / "stdout"
        self.errors = folder / "stderr"
        with self.output.open("w") as stdout, self.errors.open("w") as stderr:
            self.process = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable},
                cwd=folder,
                start_new_session=True,
            )

    def await_line(self, pattern: str, count: int = 1) -> list[str]:
        """Wait for lines; return what the groups of the pattern match."""

        def found() -> bool:
            assert self.process.poll() is None, self.errors.read_text()[-3000:] + self.output.read_text()
            return len(re.findall(pattern, self.output.read_text())) >= count

        wait_for(found, f"{count} times {pattern}", 240)
        return re.findall(pattern, self.output.read_text())

    def stop(self, timeout_s: float = 120) -> dict[str, object]:
        """Send SIGTERM; return what the program reports at its end."""
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait(timeout_s)
        lines = self.output.read_text().splitlines()
        # Under spark-submit the log is between the lines of standard output.
        reports = [line for line in lines if line.startswith("{")]
        assert len(reports) == 1, "\n".join(lines + self.errors.read_text().splitlines()[-50:])
        report: dict[str, object] = json.loads(reports[0])
        return report

    def close(self) -> None:
        """End it and what it has started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


def properties(folder: Path, pairs: Mapping[str, str]) -> Path:
    """A file of configuration for every program here."""
    common = {
        "spark.cores.max": "4",
        "spark.executor.cores": "2",
        "spark.executor.memory": "512m",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.streaming.stopGracefullyOnShutdown": "true",
        "spark.streaming.gracefulStopTimeout": "60s",
        "spark.streaming.receiver.writeAheadLog.enable": "true",
    }
    path = folder / "program.conf"
    path.write_text("".join(f"{key} {value}\n" for key, value in {**common, **pairs}.items()))
    return path
