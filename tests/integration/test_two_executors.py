"""Receivers on two executors: refused on a wrong one, moved when there is a better one, never started twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the program on two executors saw."""
    program = Path(__file__).with_name("two_executors.py")
    folder = tmp_path_factory.mktemp("two-executors")
    ran = subprocess.run([sys.executable, program, folder], capture_output=True, text=True, timeout=110, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_on_a_wrong_executor_a_receiver_is_refused_twice_and_then_may_stay(report: Any) -> None:
    assert report["crowded"] == [report["second"]] * 2
    assert report["refused"] >= 2


def test_where_there_is_room_one_moves(report: Any) -> None:
    assert set(report["spread"]) == {report["first"], report["second"]}
    assert report["moves"] >= 2


def test_spark_speculates_and_starts_no_second_copy(report: Any) -> None:
    # One of them has moved, and was started anew for that.
    assert sorted(report["starts"]) == [1, 2]


def test_with_an_executor_its_receiver_comes_back_and_moves_to_the_new_one(report: Any) -> None:
    assert len(set(report["back"])) == 2
    assert report["killed on"] not in report["back"]


def test_a_killed_worker_is_told_and_started_again(report: Any) -> None:
    assert report["told of a killed worker"] == ["error", "stopped", "started"]


def test_with_all_that_nothing_is_lost_and_nothing_comes_twice(report: Any) -> None:
    assert min(report["stored"]) > 20
    assert report["failed batches"] == 0
    assert (report["lost"], report["twice"]) == ([0, 0], [0, 0])
