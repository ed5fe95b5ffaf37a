"""From the rounds of a comparison to ratios, goals, tables and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from benchmarks import plots
from benchmarks.comparison import Cell, Outcome, is_met, ratios
from benchmarks.metrics import METRICS, figures
from benchmarks.processes import Usage
from benchmarks.programs.task import Batch, Result
from benchmarks.report import table, write_page
from benchmarks.rows import Goal, make_rows

ROWS = make_rows(2)


def cell(engine: str, *values: float, metric: str = "records_per_s", x: float = 0.0) -> Cell:
    return Cell(engine, x, tuple({metric: value} for value in values))


def outcome(*cells: Cell, row: str = "count") -> Outcome:
    return Outcome(row, "2026-01-02T03:04+00:00", False, 7, {"processor": "P"}, "idle", cells)


def test_ratio_is_the_median_of_the_rounds_ratios_with_their_spread() -> None:
    spread = ratios(cell("penstock", 10, 30, 20), cell("pyspark", 5, 5, 5), "records_per_s")
    assert spread is not None
    assert (spread.median, spread.least, spread.most) == (4, 2, 6)


def test_rounds_that_failed_have_no_ratio() -> None:
    failed = Cell("pyspark", 0.0, ({},), reason="exit code 1", is_wrong=True)
    assert ratios(cell("penstock", 10), failed, "records_per_s") is None


@pytest.mark.parametrize(("peer", "met"), [(2.0, True), (2.1, False)])
def test_goal_with_a_peer_compares_the_ratio(peer: float, met: bool) -> None:
    goal = Goal("records_per_s", ">=", 5, "pyspark")
    assert is_met(goal, outcome(cell("penstock", 10), cell("pyspark", peer)), ROWS["count"]) is met


@pytest.mark.parametrize(("figure", "met"), [(7.0, True), (7.5, False)])
def test_goal_with_an_offset_compares_the_figure(figure: float, met: bool) -> None:
    goal = Goal("processing_p50_ms", "<=", 1, "bare-spark", offset=5.0)
    cells = [cell("penstock", figure, metric=goal.metric), cell("bare-spark", 2, metric=goal.metric)]
    assert is_met(goal, outcome(*cells, row="empty"), ROWS["empty"]) is met


def test_goal_without_figures_is_not_measured() -> None:
    assert is_met(Goal("records_per_s", ">=", 5, "pyspark"), outcome(cell("penstock", 10)), ROWS["count"]) is None


def test_every_goal_names_a_metric_an_engine_and_a_point_of_its_row() -> None:
    for row in ROWS.values():
        for goal in row.goals:
            assert goal.engine in row.engines
            assert not goal.peer or goal.peer in row.engines
            assert goal.metric in METRICS
            assert goal.x is None or goal.x in {point.x for point in row.points}


def test_quick_rows_are_the_rows_at_fewer_points() -> None:
    quick = make_rows(2, is_quick=True)
    assert list(quick) == list(ROWS)
    assert all(len(quick[name].points) == 1 for name in quick)


def test_figures_leave_out_the_warm_up_and_small_batches() -> None:
    batches = [Batch(100, 0, 500, 1.0), Batch(100, 3, 20, 2.0), Batch(1, 0, 1, 3.0), Batch(100, 5, 30, 4.0)]
    usage = Usage(9.0, {"driver": 4.0}, {"driver": 0.2, "workers": 0.401}, busiest_worker_s=0.301)
    found = figures(Result(tuple(batches), started_s=0.5), usage, 1.0, warm_up=1)
    assert found["processing_p50_ms"] == 25
    assert found["scheduling_p99_ms"] == 5
    assert found["records_per_s"] == pytest.approx(301 / 3)
    assert found["from_start_s"] == pytest.approx(3.5)
    assert found["records_per_core_s"] == pytest.approx(1000)
    assert (found["memory_mb"], found["driver_mb"], found["jvm_mb"]) == (9, 4, 0)


def test_outcome_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    saved = outcome(evolve(cell("penstock", 1.5, 2), trend=((1.0, 2.0),)), Cell("bytewax", 0.0, ({},), "absent"))
    saved.save(tmp_path)
    assert Outcome.load(tmp_path / "count.json") == saved


def test_only_penstocks_failures_and_wrong_answers_count() -> None:
    cells = [
        Cell("penstock", 0.0, ({},), "exit code 1", is_wrong=True),
        Cell("penstock-dataframe", 0.0, ({},), "no such API"),
        Cell("structured-socket", 0.0, ({},), "exit code 1", is_wrong=True),
        Cell("pyspark", 0.0, ({},), "wrong answer: 1, expected 2", is_wrong=True),
    ]
    assert [line.partition(" at ")[0] for line in outcome(*cells).failures] == ["count, penstock", "count, pyspark"]


def test_table_has_figures_ratios_and_the_reason_where_there_are_none() -> None:
    cells = [cell("penstock", 4e6), cell("pyspark", 1e6), Cell("penstock-dataframe", 0.0, ({},), "no DStream.toDF")]
    text = table(ROWS["count"], outcome(*cells))
    assert "| `pyspark.streaming` | 1,000,000 | 4.00 x (4.00 to 4.00) |" in text
    assert "| Penstock | 4,000,000 | - |" in text
    assert "- Penstock, DataFrames: not available: no DStream.toDF." in text


@pytest.mark.parametrize("has_matplotlib", [False, True])
def test_page_has_a_section_for_each_row_that_was_run(
    has_matplotlib: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_matplotlib:
        pytest.importorskip("matplotlib")
    else:
        monkeypatch.setattr(plots, "reason_not_available", lambda: "the package matplotlib is not installed")
    row = ROWS["latency"]
    delays = [
        cell(engine, ms, ms + 2, metric="processing_p50_ms", x=x)
        for x in (1.0, 0.2)
        for engine, ms in (("penstock", 20), ("pyspark", 400))
    ]
    drifts = [evolve(cell("penstock", 1.0, metric="drift"), trend=((10.0, 20.0), (20.0, 21.0)))]
    outcomes = [outcome(*delays, row="latency"), outcome(*drifts, row="batches-run")]
    outcomes.append(outcome(cell("penstock", 9), cell("pyspark", 1)))
    page = write_page(tmp_path / "benchmarks.md", ROWS, outcomes).read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Machine",
        "## Goals",
        "## Count",
        f"## {row.title}",
        "## Cost over the number of batches run",
    ]
    assert "| [Count](#count) | Penstock: throughput ≥ 5 x `pyspark.streaming` | yes |" in page
    assert "Penstock: processing p50 at batch interval 1 ≤ 0.15 x `pyspark.streaming` | yes |" in page
    assert "| latency | 2026-01-02T03:04+00:00 | 2 | 7 | idle |" in page
    drawn = {path.name for path in tmp_path.glob("benchmarks/*.svg")}
    assert drawn == ({"count.svg", "latency.svg", "batches-run.svg"} if has_matplotlib else set())
    assert ("There are no plots" in page) is not has_matplotlib
