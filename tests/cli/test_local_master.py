"""The master that a laptop gets."""

from __future__ import annotations

import os

import pytest

from penstock.cli.local_master import local_master


def test_cores_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 3}, raising=False)
    assert [local_master(receivers) for receivers in (0, 1, 4)] == ["local[2]", "local[3]", "local[6]"]


@pytest.mark.parametrize(("count", "master"), [(8, "local[9]"), (None, "local[2]")])
def test_where_a_process_has_no_choice_of_cores(
    monkeypatch: pytest.MonkeyPatch, count: int | None, master: str
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert local_master(1) == master
