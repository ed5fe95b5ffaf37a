"""The long run judges growth; the flame graph names what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import flame, long_run, plots
from benchmarks.long_run import Run, Sample, growth_mb
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


def run_of(*driver_mb: float, failed: int = 0, is_manual: bool = True) -> Run:
    task = {"is_manual": is_manual, "has_ui": False, "interval_s": 1.0}
    return Run(task, "2026-01-02T03:04+00:00", failed, {"processor": "P"}, "idle", tuple(samples(*driver_mb)))


def test_run_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    saved = run_of(50, 60, is_manual=False)
    saved.save(tmp_path)
    assert Run.load(tmp_path / "live.json") == saved
    assert "1 batches live, one every 1 s, in 0 minutes: 0 failed" in saved.title


@pytest.mark.parametrize(
    ("ran", "is_flat"),
    [
        (run_of(50, 90, 100, 100, 100, 100, 104), True),
        (run_of(50, 90, 100, 102, 104, 106, 108), False),
        (run_of(50, 50, 50, failed=1), False),
    ],
)
def test_run_is_flat_if_nothing_failed_and_little_grew(ran: Run, is_flat: bool) -> None:
    assert ran.is_flat is is_flat


def test_table_has_the_memory_after_it_settled() -> None:
    assert "| driver | 100 | 104 | +4.0 |" in run_of(50, 90, 100, 101, 102, 103, 104).table


def test_plot_of_many_samples_is_small(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = run_of(*(50 + number % 7 for number in range(2_000))).draw(tmp_path / "run.svg")
    assert path.stat().st_size < 100_000
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
