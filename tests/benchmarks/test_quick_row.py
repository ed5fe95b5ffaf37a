"""A quick row as `make bench ARGS="… --quick"` runs it: engines in processes of their own, answers checked, a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.comparison import Outcome
from click.testing import CliRunner
from tests.helpers.shared_jvm import SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.programs]


def test_quick_row_runs_and_its_goal_is_judged(
    shared_jvm: SharedJvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_jvm.prepare({})
    for name, value in shared_jvm.environment.items():
        monkeypatch.setenv(name, value)
    page, engines = tmp_path / "page.md", ("penstock", "bare-python")
    arguments = [argument for engine in engines for argument in ("--engine", engine)]
    ran = CliRunner().invoke(main, ["count", "--quick", *arguments, "--results", str(tmp_path), "--page", str(page)])
    assert ran.exit_code == 0, ran.output
    cells = Outcome.load(tmp_path / "count-0.json").cells
    assert {cell.engine: cell.reason for cell in cells} == dict.fromkeys(engines, "")
    assert all(cell.medians["records_per_s"] > 0 for cell in cells)
    _judged, not_measured = page.read_text(encoding="utf-8").split("These goals were not measured:")
    assert "\n- [Count](#count). Penstock: throughput ≥ 10 x `pyspark.streaming`, Unix sockets" in not_measured
