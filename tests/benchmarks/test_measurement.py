"""Measurements run whole: a program in a process of its own, its answer checked, nothing left behind. No Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from attrs import evolve
from benchmarks.__main__ import main
from benchmarks.comparison import Outcome
from benchmarks.data import Lines
from benchmarks.engines import ENGINES
from benchmarks.machine import BusyError, wait_until_idle
from benchmarks.measurement import check, make_task, measure
from benchmarks.processes import processes_of
from benchmarks.programs import task as task_module
from benchmarks.programs.task import Batch, Result, Task, parse_result
from benchmarks.rows import HEADLINES, make_rows
from click.testing import CliRunner

ROWS = make_rows(2, is_quick=True)
LINES = Lines(seed=7)


def test_program_is_measured_checked_and_gone() -> None:
    row, sessions = ROWS["wordcount"], list[int]()
    measured = measure(ENGINES["bare-python"], row, row.points[0], seed=7, beside=sessions.append)
    assert measured.reason == ""
    assert measured.figures["records_per_s"] > 0
    assert measured.figures["memory_mb"] > 1
    assert processes_of(sessions[0]) == {}


def test_program_that_fails_is_named_by_its_last_error() -> None:
    row = ROWS["count"]
    without_source = evolve(ENGINES["bare-python"], settings={"library": "python", "records": 10, "ports": (1,)})
    idle = evolve(row.points[0], receivers=0)
    measured = measure(without_source, row, idle, seed=7)
    assert measured.is_wrong
    assert measured.reason.startswith("exit code 1: ConnectionRefusedError")


@pytest.mark.parametrize(
    ("work", "answer", "problem"),
    [
        ("count", 50, ""),
        ("count", 49, "wrong answer: 49, expected 50"),
        ("grep", LINES.matches(50), ""),
        ("wordcount", {"words": 1}, "wrong answer: {'words': 1}"),
        ("topk", [], "wrong answer: []"),
    ],
)
def test_answer_is_compared_with_plain_python(work: str, answer: object, problem: str) -> None:
    result = Result((Batch(20, 0, 1, 1.0), Batch(30, 0, 1, 2.0)), answer)
    found = check(Task(work, records=50), LINES, 1, result)
    assert found.startswith(problem) if problem else found == ""


def test_missing_records_are_reported() -> None:
    assert check(Task("count", records=9), LINES, 1, Result((Batch(8, 0, 1, 1.0),), 8)).startswith("8 records in")


def test_configuration_of_the_command_line_overrides_engine_and_row() -> None:
    row = ROWS["state"]
    key = "spark.python.unix.domain.socket.enabled"
    assert make_task(ENGINES["penstock"], row, row.points[0], 7, {}).conf[key] == "true"
    task = make_task(ENGINES["penstock"], row, row.points[0], 9, {key: "false"})
    assert (task.conf[key], task.conf["spark.driver.memory"], task.seed) == ("false", "2g", 9)


def test_tasks_and_results_pass_through_their_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task, result = Task("topk", ports=(1, 2), conf={"spark.a": "b"}), Result((Batch(1, 0, 2, 3.5),), [["a", 1]], (0.5,))
    monkeypatch.setattr(sys, "argv", ["program", task.as_json()])
    seen: list[Task] = []
    task_module.run_program(lambda given: seen.append(given) or result)  # type: ignore[func-returns-value]
    assert seen == [task]
    assert parse_result("noise\n" + capsys.readouterr().out + "more\n") == result
    assert parse_result("noise\n") is None


def test_command_runs_a_row_alone_and_writes_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    arguments = ["count", "--quick", "--engine", "bare-python", "--results", str(tmp_path), "--page", str(page)]
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 0, ran.output
    assert "count, round 1 of 1: bare-python" in ran.output
    (of_engine,) = Outcome.load(tmp_path / "count-0.json").cells
    assert of_engine.medians["records_per_s"] > 0
    written = page.read_text(encoding="utf-8")
    assert "they say nothing about speed" in written
    page.unlink()
    again = CliRunner().invoke(main, ["--page-only", "--quick", "--results", str(tmp_path), "--page", str(page)])
    assert again.output == f"written: {page}\n"
    assert page.read_text(encoding="utf-8") == written


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--list"], "wordcount"),
        (["nothing"], "no row 'nothing'; rows: receive"),
        (["count", "--engine", "none"], "no engine 'none'"),
        (["window", "--engine", "bytewax"], "row window has none of these engines"),
        (["latency", "--point", "3"], "row latency has none of these points; it has: 1, 0.2, 0.1, 0.05"),
        (["--conf", "a=b"], "must be spark.KEY=VALUE"),
    ],
)
def test_command_answers_wrong_arguments_by_name(arguments: list[str], said: str) -> None:
    ran = CliRunner().invoke(main, arguments)
    assert said in ran.output
    assert ran.exit_code == (0 if arguments == ["--list"] else 2)


def test_headlines_are_rows_with_the_engines_of_the_readme(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["headlines", "--quick", "--engine", "bare-dataframe", "--results", str(tmp_path)])
    assert ran.exit_code == 2
    assert "row receive has none of these engines" in ran.output
    for name, (engines, points) in HEADLINES.items():
        row = make_rows(2)[name]
        assert set(engines) <= set(row.engines)
        assert set(points) <= {point.x for point in row.points}


def test_round_waits_for_an_idle_machine() -> None:
    shares = iter([0.9, 0.3, 0.05])
    assert wait_until_idle(lambda: next(shares)) == 0.05
    with pytest.raises(BusyError, match=r"^50% of the processors are busy .* after 0 s of waiting: end them, or run"):
        wait_until_idle(lambda: 0.5, wait_s=0)


def test_processes_of_another_session_are_not_seen() -> None:
    assert os.getpid() not in processes_of(-1)
