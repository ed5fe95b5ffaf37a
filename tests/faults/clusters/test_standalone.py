"""A standalone cluster on this machine: master, worker, executor and driver talk as they would between hosts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.forked import run_module
from tests.helpers.shared_jvm import PYSPARKS_DAEMON, SharedJvm
from tests.helpers.standalone import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.programs]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of one worker."""
    with standalone_cluster(tmp_path) as url:
        yield url


def test_blocks_of_a_standalone_executor_are_fetched_to_the_last_batch(
    master: str, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    shared_jvm.prepare(PYSPARKS_DAEMON)
    ran = run_module(
        "tests.faults.clusters.on_standalone",
        master,
        str(tmp_path / "notes"),
        cwd=Path(__file__).parents[3],
        env={**shared_jvm.environment, "PYSPARK_PYTHON": sys.executable},
    )
    assert ran.returncode == 0, ran.stdout
    report = next(json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{"))
    assert report["executor"] == "0"
    assert 0 < report["before the stop"] < len(report["seen"])
    assert report["seen"][: len(report["stored"])] == report["stored"]
    # The executor's process may have been killed before it could write the last one down, not before it stored it.
    assert report["seen"] == list(range(len(report["seen"])))
    assert report["stop took"] < 60
