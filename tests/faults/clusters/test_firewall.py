"""A program on a cluster of which every host drops the connections that the network policies do not admit.

The policies are those of deploy/kubernetes, which follow from the table of ports in docs/deployment.md. The hosts are
network namespaces, which takes root, iproute2's ``ip`` and nftables' ``nft``.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from attrs import evolve
from tests.deploy.firewall import configured_ports, ports
from tests.deploy.manifests import client_mode
from tests.faults.clusters.running import Running, properties
from tests.helpers import wait_for
from tests.helpers.namespaces import DROPPED, NOT_HERE, Admission, network
from tests.helpers.standalone import standalone_cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.programs,
    pytest.mark.timeout(620),
    pytest.mark.usefixtures("pysparks_daemon"),
    pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE),
]

PROGRAM = Path(__file__).with_name("cluster_program.py")
# The port of the cluster manager, on top of the table.
MASTER = 7077
# Receivers of a host, by spark.port.maxRetries.
RETRIES = 16


def admissions(opener: str, addresses: dict[str, tuple[str, ...]]) -> list[Admission]:
    """The connections that a host admits by the table of ports.

    Args:
        opener: ``driver`` or ``executor``.
        addresses: who may be named as the one that connects → where it runs.
    """
    numbers = configured_ports(client_mode())
    found = []
    for port in ports():
        sources = tuple(dict.fromkeys(address for each in port.connects for address in addresses.get(each, ())))
        if sources and (port.opener == "driver") == (opener == "driver"):
            number = numbers[port.key]
            last = number + RETRIES if port.opener == "receiver" else number
            found.append(Admission(port.key.replace(".", "_"), number, last, sources))
    return found


def test_program_opens_no_connection_that_the_table_of_ports_does_not_have(tmp_path: Path) -> None:
    notes, checkpoint = tmp_path / "notes", tmp_path / "checkpoint"
    names = ["driver", "a", "b"]
    with network(names) as hosts:
        driver, *workers = hosts.hosts.values()
        executors = tuple(worker.address for worker in workers)
        addresses = {"driver": (driver.address,), "executors": executors}
        hosts.restrict("driver", [*admissions("driver", addresses), Admission("master", MASTER, MASTER, executors)])
        for name in names[1:]:
            hosts.restrict(name, admissions("executor", addresses))
        conf = properties(
            tmp_path,
            {
                **{key: str(number) for key, number in configured_ports(client_mode()).items()},
                "spark.driver.host": driver.address,
                "spark.driver.bindAddress": driver.address,
                "spark.streaming.receiver.writeAheadLog.enable": "false",
                # The driver fetches every result from the executor's block manager, as it does with large ones.
                "spark.task.maxDirectResultSize": "1",
                # On a busy machine there are batches to catch up with.
                "spark.streaming.gracefulStopTimeout": "200s",
            },
        )
        with standalone_cluster(tmp_path, hosts=[evolve(driver, port=MASTER), *workers]) as url:
            command: list[str | Path] = ["run", "--master", url, "--properties-file", conf, PROGRAM, notes, checkpoint]
            running = Running(
                [*driver.command, sys.executable, "-m", "penstock_cli", *command], tmp_path, sys.executable
            )
            try:
                running.await_line(r"receiver on (\d+)")
                wait_for(lambda: notes.exists() and len(notes.read_text().split()) > 500, "numbers are stored", 240)
                report = running.stop(240)
            finally:
                running.close()
            seen = {name: hosts.connections(name) for name in names}
            # The firewall is at work: a connection that the table does not have is dropped.
            attempt = f"import socket; socket.create_connection(({driver.address!r}, 9999), timeout=0.3)"
            refused = subprocess.run(
                [*workers[0].command, sys.executable, "-c", attempt], capture_output=True, text=True, check=False
            )
            assert "timed out" in refused.stderr
            assert hosts.connections("driver")[DROPPED] > seen["driver"][DROPPED]
    total = Counter[str]()
    for counts in seen.values():
        total.update(counts)
    print(f"connections: {sum(total.values()) - total[DROPPED]} admitted, {total[DROPPED]} dropped: {dict(total)}")
    assert total[DROPPED] == 0
    # Every port of the table that a driver or executor connects to is used.
    assert {name for name, count in total.items() if not count} == {DROPPED}
    numbers = [int(line) for line in notes.read_text().split()]
    collected = report["seen"]
    assert isinstance(collected, list)
    assert set(numbers) <= set(collected)
    assert len(collected) <= len(numbers) + 1
    assert report["counts"] == dict(Counter(f"word {number % 3}" for number in collected))
