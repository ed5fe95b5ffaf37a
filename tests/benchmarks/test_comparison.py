"""From the rounds of a comparison to ratios, goals, tables and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from benchmarks import plots
from benchmarks.comparison import Cell, Judgement, Outcome, Spread, judge, ratios
from benchmarks.engines import ENGINES
from benchmarks.long_run import FOLDER, Run, Sample
from benchmarks.measurement import ROOT
from benchmarks.metrics import METRICS, figures
from benchmarks.processes import Usage
from benchmarks.programs import bare
from benchmarks.programs.answers import Answers
from benchmarks.programs.task import Batch, Result, Task
from benchmarks.report import ELSEWHERE, goals, table, write_page
from benchmarks.rows import Goal, Row, make_rows

ROWS = make_rows(2)


def cell(engine: str, *values: float, metric: str = "records_per_s", x: float = 0.0) -> Cell:
    return Cell(engine, x, tuple({metric: value} for value in values))


def outcome(*cells: Cell, row: str = "count") -> Outcome:
    return Outcome(row, cells[0].x, "2026-01-02T03:04+00:00", False, 7, {"processor": "P"}, "idle", cells)


def goals_of(table_of_goals: str) -> list[str]:
    """The lines of goals that belong to rows."""
    return table_of_goals.splitlines()[2 : -1 - len(ELSEWHERE)]


def test_ratio_is_the_median_of_the_rounds_ratios_with_their_spread() -> None:
    spread = ratios(cell("penstock", 10, 30, 20), cell("pyspark", 5, 5, 5), "records_per_s")
    assert spread == Spread(4, 2, 6, 3)


def test_rounds_that_failed_have_no_ratio() -> None:
    failed = Cell("pyspark", 0.0, ({},), reason="exit code 1", is_wrong=True)
    assert ratios(cell("penstock", 10), failed, "records_per_s") is None


@pytest.mark.parametrize(("peer", "met"), [(2.0, True), (2.1, False)])
def test_goal_with_a_peer_compares_the_ratio(peer: float, met: bool) -> None:
    goal = Goal("records_per_s", ">=", 5, "pyspark")
    found = judge(goal, ROWS["count"], [outcome(cell("penstock", 10), cell("pyspark", peer))])
    assert found.is_met is met
    assert found.ratio == Spread(10 / peer, 10 / peer, 10 / peer, 1)


@pytest.mark.parametrize(("figure", "met"), [(7.0, True), (7.5, False)])
def test_goal_with_an_offset_compares_the_figure(figure: float, met: bool) -> None:
    goal = Goal("processing_p50_ms", "<=", 1, "bare-spark", offset=5.0)
    cells = [cell("penstock", figure, metric=goal.metric), cell("bare-spark", 2, metric=goal.metric)]
    found = judge(goal, ROWS["empty"], [outcome(*cells, row="empty")])
    assert (found.is_met, found.figure, found.limit) == (met, figure, 7.0)


def test_goal_without_figures_is_not_measured() -> None:
    assert (
        judge(Goal("records_per_s", ">=", 5, "pyspark"), ROWS["count"], [outcome(cell("penstock", 10))]) == Judgement()
    )


@pytest.mark.parametrize(("metric", "relation"), [("records_per_s", ">="), ("processing_p50_ms", "<=")])
@pytest.mark.parametrize("near", [0.8, 1.2])
def test_missed_goal_is_missed_and_names_only_a_faster_limit(metric: str, relation: str, near: float) -> None:
    figure = 10 / near if relation == ">=" else 10 * near
    cells = [cell(*each, metric=metric) for each in (("penstock", figure), ("pyspark", 10), ("bare-python", 10))]
    factor = 5 if relation == ">=" else 0.1
    row = evolve(ROWS["count"], goals=(Goal(metric, relation, factor, "pyspark", limit="bare-python"),))
    (text,) = goals_of(goals({"count": row}, [outcome(*cells)]))
    limit = f"bare Python loop: {near:#.3g} x" if near > 1 else "-"
    assert text.endswith(f"| 1 | **no** | {limit} |")


@pytest.mark.parametrize("x", [0.05, 0.02])
def test_goal_of_a_short_interval_stands_beside_the_bare_job(x: float) -> None:
    cells = [
        cell(engine, ms, metric="scheduling_p99_ms", x=x) for engine, ms in (("penstock", 120), ("bare-spark", 100))
    ]
    row = ROWS["latency"]
    row = evolve(row, goals=tuple(goal for goal in row.goals if goal.metric == "scheduling_p99_ms" and goal.x == x))
    (text,) = goals_of(goals({"latency": row}, [outcome(*cells, row="latency")]))
    assert text.endswith("| **no** | bare Spark job: 1.20 x |")


class SlowJobs:
    """Stands in for Spark and for the clock: each job takes 250 ms."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds

    def parallelize(self, _lines: list[str], _partitions: int) -> SlowJobs:
        return self

    def mapPartitions(self, _function: object) -> SlowJobs:
        return self

    def collect(self) -> list[tuple[str, int]]:
        self._now_s += 0.25
        return []


def test_bare_jobs_that_take_longer_than_an_interval_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = SlowJobs()
    monkeypatch.setattr(bare, "time", spark)
    # The public way is the benchmark itself, which takes minutes.
    batches = bare._jobs(spark, Task("wordcount", batches=3, interval_s=0.1), [], Answers("wordcount"))
    assert [batch.scheduling_ms for batch in batches] == pytest.approx([0, 150, 300])
    assert [batch.processing_ms for batch in batches] == pytest.approx([250, 250, 250])


def test_figures_of_other_pages_are_those_that_the_pages_have() -> None:
    texts = [" ".join(parts) for parts in ELSEWHERE]
    rates, scale = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("rate-control.md", "scale.md"))
    measures = (("batches until settled", 13), ("overshoot", 15), ("longest wait", 14), ("used in time", 15))
    summary = rates.partition("| model against pid |")[2].partition("\n\n")[0]
    assert all(f"| {name} | {number} |" in summary and f"{name}: on {number}" in texts[0] for name, number in measures)
    assert "| 90 %, 95 %, 95 % |" in rates
    assert "90, 95 and 95 %" in texts[1]
    (of_goal,) = [line.split("|") for line in scale.splitlines() if line.startswith("| 1,000 | 1,000 | 5,000 |")]
    accepted, batch_p99_ms, cores = of_goal[4].strip(), of_goal[8].split("/")[1].strip(), of_goal[10].strip()
    assert f"{accepted} of 5,000 blocks/s on {cores} cores, p99 {batch_p99_ms} ms" in texts[2]


@pytest.mark.parametrize(
    ("last_mb", "batches", "verdict"),
    [(101, 100_000, "yes"), (190, 100_000, "**no**"), (101, 5, "not measured")],
)
def test_long_run_is_a_goal_if_it_is_long_enough(last_mb: float, batches: int, verdict: str) -> None:
    memory = ((0.0, 0, 100.0), (60.0, batches // 2, 100.0), (120.0, batches, last_mb))
    samples = tuple(Sample(elapsed_s, number, number, mb, 400.0, 90.0) for elapsed_s, number, mb in memory)
    run = Run({"is_manual": True, "has_ui": False}, "2026-01-02T03:04+00:00", 0, {}, "idle", samples)
    text = next(line for line in goals({}, [], [run]).splitlines() if "memory flat" in line)
    assert text.endswith(f"| {verdict} | - |")


def test_page_is_what_its_figures_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = ROOT / "docs" / "benchmarks"

    def drawn(row: Row, _outcomes: object, _folder: Path) -> Path | None:
        plot = figures / f"{row.name}.svg"
        return plot if plot.exists() else None

    # Without matplotlib there are no plots: the page shows those that are there.
    monkeypatch.setattr(plots, "reason_not_available", lambda: "")
    monkeypatch.setattr(plots, "draw", drawn)
    monkeypatch.setattr(Run, "draw", lambda _run, path: figures / path.name)
    outcomes = [Outcome.load(path) for path in sorted(figures.glob("*.json"))]
    page = write_page(tmp_path / "benchmarks.md", ROWS, outcomes, figures / FOLDER)
    remedy = "run: make bench ARGS='--page-only --results docs/benchmarks --page docs/benchmarks.md'"
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8"), remedy
    assert {path.name for path in (tmp_path / "benchmarks").glob("*.json")} == {
        path.name for path in figures.glob("*.json")
    }


def test_every_goal_names_a_metric_an_engine_and_a_point_of_its_row() -> None:
    for row in ROWS.values():
        for goal in row.goals:
            assert goal.engine in row.engines
            assert not goal.peer or goal.peer in row.engines
            assert not goal.limit or goal.limit in row.engines
            assert goal.metric in METRICS
            assert goal.x is None or goal.x in {point.x for point in row.points}


def test_delays_of_every_row_come_from_batches_after_the_warm_up() -> None:
    batches = {
        (row.name, point.x): point.task["batches"] - row.warm_up - point.warm_up
        for row in ROWS.values()
        for point in row.points
        if "batches" in point.task
    }
    assert min(batches.values()) >= 17, batches


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


def test_warm_up_begins_with_the_first_records_and_every_batch_after_it_waits() -> None:
    batches = [Batch(0, 1, 9, 1.0), Batch(100, 0, 500, 2.0), Batch(100, 2, 20, 3.0), Batch(0, 40, 1, 4.0)]
    found = figures(Result(tuple(batches)), Usage(9.0, {}, {}), 1.0, warm_up=1)
    assert (found["processing_p99_ms"], found["scheduling_p99_ms"]) == (20, 40)


def test_engine_of_one_process_receives_in_it() -> None:
    usage = Usage(9.0, {"driver": 4.0}, {"driver": 0.5, "jvm": 0.0, "workers": 0.0})
    assert figures(Result((Batch(1000, None, 1, 1.0),)), usage, 0.0, 0)["records_per_core_s"] == 2000


def test_outcome_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    saved = outcome(evolve(cell("penstock", 1.5, 2), trend=((1.0, 2.0),)), Cell("bytewax", 0.0, ({},), "absent"))
    saved.save(tmp_path)
    assert Outcome.load(tmp_path / "count-0.json") == saved


def test_points_of_a_row_are_files_of_their_own(tmp_path: Path) -> None:
    for ms, x in ((1, 1.0), (2, 0.05), (3, 0.05)):
        outcome(cell("penstock", ms, metric="processing_p50_ms", x=x), row="latency").save(tmp_path)
    assert {path.name: Outcome.load(path).cells[0].rounds for path in tmp_path.iterdir()} == {
        "latency-1.json": ({"processing_p50_ms": 1},),
        "latency-0.05.json": ({"processing_p50_ms": 3},),
    }


def test_only_penstocks_failures_and_wrong_answers_count() -> None:
    cells = [
        Cell("penstock", 0.0, ({},), "exit code 1", is_wrong=True),
        Cell("penstock-dataframe", 0.0, ({},), "no such API"),
        Cell("structured-socket", 0.0, ({},), "exit code 1", is_wrong=True),
        Cell("pyspark", 0.0, ({},), "wrong answer: 1, expected 2", is_wrong=True),
    ]
    assert [line.partition(" at ")[0] for line in outcome(*cells).failures] == ["count, penstock", "count, pyspark"]


def test_table_has_figures_ratios_and_the_reason_where_there_are_none() -> None:
    cells = [cell("penstock", 4e6, 6e6), cell("pyspark", 1e6, 1e6), Cell("bytewax", 0.0, ({},), "not installed")]
    text = table(ROWS["count"], [outcome(*cells)])
    assert "| `pyspark.streaming` | 1,000,000 | 5.00 (4.00-6.00) |" in text
    assert "| Penstock | 5,000,000 | - |" in text
    assert "- Bytewax: not available: not installed." in text
    assert "- Not run: Penstock, DataFrames; `pyspark.streaming`, Unix sockets; " in text


def test_table_says_at_which_sizes_an_engine_did_not_run() -> None:
    row = evolve(ROWS["latency"], engines=("penstock", "pyspark", "bytewax"))
    ran = [("penstock", 1.0), ("penstock", 0.2), ("penstock", 0.1), ("pyspark", 1.0)]
    cells = [cell(engine, 5, metric="processing_p50_ms", x=x) for engine, x in ran]
    assert table(row, [outcome(each, row="latency") for each in cells]).splitlines()[-3:] == [
        "- Not run at 0.05, 0.02: Penstock.",
        "- Not run at 0.2, 0.1, 0.05, 0.02: `pyspark.streaming`.",
        "- Not run: Bytewax.",
    ]


@pytest.mark.parametrize("has_matplotlib", [False, True])
def test_page_has_what_was_run_and_names_what_was_not(
    has_matplotlib: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_matplotlib:
        pytest.importorskip("matplotlib")
    else:
        monkeypatch.setattr(plots, "reason_not_available", lambda: "the package matplotlib is not installed")
    delays = [
        outcome(*(cell(engine, *ms, metric="processing_p50_ms", x=x) for engine, ms in pairs), row="latency")
        for x, pairs in (
            (0.2, (("penstock", (20.0,)), ("pyspark", (400.0,)))),
            (1.0, (("penstock", (20.0, 30.0)), ("bare-spark", (20.0, 28.0)))),
        )
    ]
    drifts = outcome(evolve(cell("penstock", 1.0, metric="drift", x=0.25), trend=((10.0, 20.0),)), row="batches-run")
    # The limits have a colour, too; a round may fail after others.
    engines = [cell(engine, 9.0, 8.0) for engine in ENGINES if engine != "pyspark-unix"]
    counts = outcome(*engines, Cell("pyspark-unix", 0.0, ({"records_per_s": 1.0}, {}), "exit code 1", is_wrong=True))
    samples = tuple(Sample(second, int(second), 9, 50.0, 400.0, 90.0) for second in (0.0, 60.0, 120.0))
    Run({"is_manual": True, "has_ui": False}, "2026-01-02T03:04+00:00", 0, {}, "idle", samples).save(tmp_path / "long")
    path = write_page(tmp_path / "benchmarks.md", ROWS, [drifts, *delays, counts], tmp_path / "long")
    page = path.read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Goals",
        "## Count",
        "## Latency of small batches",
        "## Cost over the number of batches run",
        "## Long runs",
        "## Not run",
        "## Machine",
    ]
    assert (
        "| [Count](#count) | Penstock: throughput ≥ 10 x `pyspark.streaming`, Unix sockets | 9.00 x | 2 | **no** |"
        in page
    )
    assert "at batch interval 1 ≤ 1.1 x bare Spark job | 1.04 x (1.00-1.07) | 2 | yes | - |" in page
    assert "**2 rounds at 1; 1 round at 0.2**, without a spread." in page
    not_measured = page.partition("These goals were not measured:")[2].partition("\n## ")[0]
    assert "- Receive only. Penstock: throughput of the receiver's process ≥ 0.8 x bare Python loop; " in not_measured
    assert "- Receive only: `make bench ARGS=receive`" in page
    assert "**120 batches under the manual clock, in 2 minutes: 0 failed**" in page
    assert "| latency | 2026-01-02T03:04 | - | idle, idle |" in page
    assert Outcome.load(tmp_path / "benchmarks" / "count-0.json") == counts
    again = write_page(tmp_path / "again" / "benchmarks.md", ROWS, [counts], tmp_path / "benchmarks" / "long-run")
    assert "## Long runs\n" in again.read_text(encoding="utf-8")
    drawn = {path.name for path in tmp_path.glob("benchmarks/*.svg")}
    names = {"count.svg", "latency.svg", "batches-run.svg", "long-run-manual.svg"}
    assert drawn == (names if has_matplotlib else set())
    assert all(f"](benchmarks/{name})" in page for name in drawn)
    assert ("There are no plots" in page) is not has_matplotlib
