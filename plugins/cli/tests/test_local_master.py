"""``local_master``: a slot for each core and each receiver."""

from __future__ import annotations

import os

import pytest

from penstock_cli.launch import local_master


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 3}, raising=False)
    assert [local_master(receivers) for receivers in (0, 1, 4)] == ["local[2]", "local[3]", "local[6]"]


@pytest.mark.parametrize(("count", "master"), [(8, "local[9]"), (None, "local[2]")])
def test_cores_are_the_machines_without_cpu_affinity(
    monkeypatch: pytest.MonkeyPatch, count: int | None, master: str
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert local_master(1) == master
