"""A receiver's host is cut off from the others and comes back: a driver and two workers, each with its own address.

The hosts are network namespaces, which takes root and iproute2's ``ip``.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
from tests.faults.clusters.running import Running, properties
from tests.helpers import wait_for
from tests.helpers.namespaces import NOT_HERE, network
from tests.helpers.standalone import standalone_cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.programs,
    pytest.mark.timeout(620),
    pytest.mark.usefixtures("pysparks_daemon"),
    pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE),
]

PROGRAM = Path(__file__).with_name("cluster_program.py")


def repeated(numbers: list[int]) -> set[int]:
    """The numbers that occur more than once."""
    return {number for number, times in Counter(numbers).items() if times > 1}


def test_host_that_is_cut_off_and_returns_loses_nothing_and_receives_no_more(tmp_path: Path) -> None:
    notes, checkpoint, refused = tmp_path / "notes", tmp_path / "checkpoint", tmp_path / "notes.refused"

    def stored() -> int:
        return len(notes.read_text().split()) if notes.exists() else 0

    with network(["driver", "a", "b"]) as hosts:
        driver, *workers = hosts.hosts.values()
        conf = properties(
            tmp_path,
            {
                "spark.driver.host": driver.address,
                "spark.driver.bindAddress": driver.address,
                "spark.ui.enabled": "false",
                # How soon Spark gives up an executor that it does not hear from, and how often it looks.
                "spark.executor.heartbeatInterval": "1s",
                "spark.network.timeout": "6s",
                "spark.network.timeoutInterval": "1s",
                # Otherwise the executor ends by itself meanwhile: its requests to the driver have no answer.
                "spark.rpc.io.connectionTimeout": "120s",
                # On a busy machine there are batches to catch up with.
                "spark.streaming.gracefulStopTimeout": "200s",
                "spark.penstock.log.level": "INFO",
            },
        )
        with standalone_cluster(tmp_path, hosts=[driver, *workers]) as url:
            command: list[str | Path] = ["run", "--master", url, "--properties-file", conf]
            program: list[str | Path] = [PROGRAM, notes, checkpoint]
            start = [*driver.command, sys.executable, "-m", "penstock_cli", *command, *program]
            running = Running(start, tmp_path, sys.executable)
            try:
                (first,) = running.await_line(r"receiver on (\d+)")
                wait_for(lambda: stored() > 100, "numbers are stored", 120)
                (cut,) = {path.parents[2].name for path in tmp_path.glob(f"work-*/app-*/{first}/stderr")}
                name = ["a", "b"][int(cut.removeprefix("work-"))]
                hosts.cut(name)
                second = running.await_line(r"receiver on (\d+)", 2)[-1]
                before = stored()
                wait_for(lambda: stored() > before + 100, "numbers are stored by the other host", 120)
                # Spark would end the old receiver: its report is to reach the driver first.
                jvms = [each for each in map(psutil.Process, hosts.pids(name)) if each.name() == "java"]
                for each in jvms:
                    each.suspend()
                hosts.heal(name)
                wait_for(lambda: refused.exists() and refused.read_text(), "its report is refused", 120)
                # A store of the second launch may be too late for the stop, and is refused then.
                refusal = refused.read_text()
                for each in jvms:
                    each.resume()
                before = stored()
                wait_for(lambda: stored() > before + 100, "the other one is not disturbed", 120)
                report = running.stop(240)
            finally:
                running.close()
    assert second != first
    assert "launch 1 of stream 0 was replaced" in refusal
    # Active on one host at a time, as the driver saw it ...
    changes = re.findall(r"^receiver (?:on|stopped)", running.output.read_text(), re.MULTILINE)
    assert changes == ["receiver on", "receiver stopped", "receiver on", "receiver stopped"]
    # ... and as the receivers did: the second continues after the last number that the first had noted. The driver may
    # have accepted that one from the first as well, and the cut kept the answer from it until the network was back:
    # then both store it, and no other number comes twice.
    numbers, seen = [int(line) for line in notes.read_text().split()], report["seen"]
    assert isinstance(seen, list)
    _, continued = map(int, (tmp_path / "notes.begun").read_text().split())
    assert sorted(set(numbers)) == list(range(max(numbers) + 1))
    assert Counter(seen) >= Counter(numbers)
    assert repeated(numbers) <= {continued}
    assert repeated(seen) <= {continued}
    # Accepted and not noted: the answer came too late for the first launch, or for the second, at the stop.
    assert set(Counter(seen) - Counter(numbers)) <= {continued, max(numbers) + 1}
