"""``Picture``, which is redrawn in place, and ``Lines``."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from penstock import BatchInfo
from penstock_cli.demo_view import Lines, Picture, ViewedBatch


def batch(records: int) -> ViewedBatch:
    return ViewedBatch(BatchInfo(1000 * records, {}, 0, 0, 1, {}), 1000, top_words=((f"word{records}", 1),))


def test_lines_prints_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as lines:
        lines.phase("starting")
        assert capsys.readouterr().out == ""
        lines.add(batch(1))
        assert "word1" in capsys.readouterr().out
    assert capsys.readouterr().out == ""


def test_picture_ends_as_a_table_of_the_last_batches() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80, height=11, _environ={"TERM": "xterm"})
    with Picture(console) as picture:
        picture.phase("starting Spark")
        for records in range(1, 6):
            picture.add(batch(records))
        picture.phase("stopping")
    assert isinstance(console.file, StringIO)
    said = console.file.getvalue()
    assert "starting Spark" in said
    last = said[said.rindex("rate limit") :]
    assert last.count("1 ms") == 2 * 3  # processing and total of three rows
    assert "word5" in last
    assert "stopping" not in last


def test_picture_without_batches_is_empty() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80, _environ={"TERM": "xterm"})
    with Picture(console) as picture:
        picture.phase("starting Spark")
    assert isinstance(console.file, StringIO)
    assert "rate limit" not in console.file.getvalue()


def test_picture_shows_the_dashboards_address_while_it_runs() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80, height=11, _environ={"TERM": "xterm"})
    with Picture(console) as picture:
        picture.dashboard("http://127.0.0.1:4050")
        picture.add(batch(1))
        assert isinstance(console.file, StringIO)
        assert "http://127.0.0.1:4050" in console.file.getvalue()


def test_lines_begin_with_the_dashboards_address(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as lines:
        lines.dashboard("http://127.0.0.1:4050")
    assert capsys.readouterr().out == "dashboard http://127.0.0.1:4050\n"
