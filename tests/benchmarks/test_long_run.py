"""The long run judges growth; the flame graph names what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import flame, long_run, plots
from benchmarks.long_run import Sample, draw, growth_mb
from click.testing import CliRunner


def samples(*driver_mb: float) -> list[Sample]:
    return [Sample(float(second), second, second, mb, 400.0, 90.0) for second, mb in enumerate(driver_mb)]


def test_growth_while_memory_settles_does_not_count() -> None:
    assert growth_mb(samples(50, 90, 100, 100, 100, 100, 100), "driver") == 0


def test_growth_after_that_is_that_of_the_line_through_all_samples() -> None:
    assert growth_mb(samples(50, 90, 100, 101, 102, 103, 104), "driver") == pytest.approx(4)
    assert growth_mb(samples(1, 2, 3), "workers") == 0


def test_one_sample_does_not_grow() -> None:
    assert growth_mb(samples(50), "driver") == 0


def test_memory_is_plotted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(samples(50, 60, 61), tmp_path / "run.svg")
    assert "<svg" in (tmp_path / "run.svg").read_text(encoding="utf-8")
    assert plots.reason_not_available() == ""


def test_long_run_is_either_manual_or_live() -> None:
    ran = CliRunner().invoke(long_run.main, ["--batches", "5", "--minutes", "1"])
    assert ran.exit_code == 2
    assert "choose one" in ran.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no row 'nothing'"),
        (["latency", "--point", "3"], "row latency has no point 3; it has: 1, 0.2, 0.1, 0.05"),
        (["count"], "py-spy is not installed: make bench installs it"),
    ],
)
def test_flame_graph_answers_by_name(arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flame, "_PY_SPY", Path("/nowhere/py-spy"))
    ran = CliRunner().invoke(flame.main, arguments)
    assert ran.exit_code != 0
    assert said in ran.output
