"""Executors of a standalone cluster are released when idle and requested under load, beside a receiver."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.faults.clusters.running import Running, properties
from tests.helpers import wait_for
from tests.helpers.standalone import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.programs, pytest.mark.usefixtures("pysparks_daemon")]

PROGRAM = Path(__file__).with_name("allocation_program.py")


def test_executors_follow_the_load_and_the_receivers_is_never_released(tmp_path: Path) -> None:
    conf = properties(
        tmp_path,
        {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.cores": "1",
            "spark.streaming.receiver.writeAheadLog.enable": "false",
            "spark.streaming.dynamicAllocation.enabled": "true",
            "spark.streaming.dynamicAllocation.scalingInterval": "3",
            "spark.streaming.dynamicAllocation.maxExecutors": "3",
        },
    )
    slow = tmp_path / "slow"
    with standalone_cluster(tmp_path, workers=2) as url:
        command: list[str | Path] = ["run", "--master", url, "--properties-file", conf, PROGRAM, slow]
        running = Running([sys.executable, "-m", "penstock_cli", *command], tmp_path, sys.executable)

        def executors() -> list[set[str]]:
            """Those of each batch since the receiver was started."""
            lines = [line.split() for line in running.output.read_text().partition("receiver on")[2].splitlines()]
            return [set(words[1:]) for words in lines if words[:1] == ["executors"]]

        def have(count: int) -> None:
            """Wait for a batch with this number of executors."""

            def found() -> bool:
                assert running.process.poll() is None, running.errors.read_text()[-3000:]
                return len(executors()[-1]) == count if executors() else False

            wait_for(found, f"{count} executors", 120)

        try:
            (receiver,) = running.await_line(r"receiver on (\d+)")
            # One for the receiver and one for batches.
            have(2)
            slow.touch()
            have(3)
            slow.unlink()
            have(2)
            running.stop()
        finally:
            running.close()
    assert all(receiver in executor for executor in executors()), executors()
    assert running.output.read_text().count("receiver on") == 1
