"""Receivers on two executors: refused on a wrong one, moved to a better one, relaunched after kills."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.forked import run_module
from tests.helpers.shared_jvm import SharedJvm

# It waits for executors that start, several times; on a busy machine each takes its time.
pytestmark = [pytest.mark.spark, pytest.mark.programs, pytest.mark.timeout(620)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, shared_jvm: SharedJvm) -> Any:
    """The observations of the program on two executors."""
    shared_jvm.prepare({})
    ran = run_module(
        "tests.faults.kills.two_executors",
        str(tmp_path_factory.mktemp("two-executors")),
        cwd=Path(__file__).parents[3],
        # Its first job runs before Penstock has set the workers' Python.
        env={**shared_jvm.environment, "PYSPARK_PYTHON": sys.executable},
        timeout_s=600,
    )
    # Beside a failed test: its log, and the state that it describes when a wait gives up.
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout
    return next(json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{"))


def test_a_receiver_on_a_wrong_executor_is_refused_twice_and_may_then_stay(report: Any) -> None:
    assert report["crowded"] == [report["second"]] * 2
    assert report["refused"] >= 2


def test_a_receiver_moves_to_an_executor_with_free_slots(report: Any) -> None:
    assert set(report["spread"]) == {report["first"], report["second"]}
    assert report["moves"] >= 1


def test_only_the_receiver_that_moves_starts_a_second_time(report: Any) -> None:
    assert sorted(report["starts"]) == [1, 2]


def test_a_receiver_of_a_killed_executor_returns_and_both_spread_over_the_executors_that_live(report: Any) -> None:
    assert len(set(report["back"])) == 2
    assert report["killed on"] not in report["back"]


def test_a_killed_worker_is_reported_and_its_receiver_relaunched(report: Any) -> None:
    assert report["events of a killed worker"] == ["error", "stopped", "started"]


def test_no_record_is_lost_or_duplicated_by_moves_and_kills(report: Any) -> None:
    assert min(report["stored"]) > 20
    assert report["failed batches"] == []
    assert (report["lost"], report["twice"]) == ([[], []], [[], []])
