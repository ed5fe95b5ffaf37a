"""The table of batches in a notebook: what it shows, and when it is updated."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from plugins.ui.tests.conftest import batch_events

from penstock import ConfigurationError
from penstock_ui.batch_table import BatchTable


class Notebook(ModuleType):
    """Stands for ``IPython.display``, and has what its cells show.

    Attributes:
        cells: the HTML of each cell, as it is now.
    """

    def __init__(self) -> None:
        super().__init__("IPython.display")
        self.cells: list[str] = []

    HTML = str

    def display(self, html: str, *, display_id: bool) -> Handle:
        assert display_id
        self.cells.append(html)
        return Handle(self, len(self.cells) - 1)


class Handle:
    """Updates a cell."""

    def __init__(self, notebook: Notebook, number: int) -> None:
        self._notebook, self._number = notebook, number

    def update(self, html: str) -> None:
        self._notebook.cells[self._number] = html


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    return notebook


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time, in a list of one, which a test changes."""
    now_s = [100.0]
    monkeypatch.setattr("penstock_ui.batch_table.monotonic", lambda: now_s[0])
    return now_s


def complete(table: BatchTable, number: int, **options: Any) -> None:
    table.onBatchCompleted(batch_events(number, {0: 1000 * number}, **options)[-1])


def shown(table: BatchTable) -> str:
    return table._repr_html_()  # which Jupyter calls


def show(table: BatchTable) -> None:
    """End a cell with the table."""
    table._ipython_display_()  # which Jupyter calls


def rows(html: str) -> list[str]:
    """The second column of the rows, the number of records."""
    return [row.split("<td>")[2].removesuffix("</td>") for row in html.split("<tr>")[2:]]


def test_table_has_the_last_batches_with_the_newest_first() -> None:
    table = BatchTable(2)
    for number in (1, 2, 3):
        complete(table, number)
    html = shown(table)
    assert rows(html) == ["3,000", "2,000"]
    assert "<td>10 ms</td><td>200 ms</td><td>210 ms</td>" in html


def test_error_is_shown_as_text() -> None:
    table = BatchTable()
    complete(table, 1, failure="Traceback:\nValueError: <script> caf\udce9")
    assert "<td>ValueError: &lt;script&gt; caf\ufffd</td>" in shown(table)


def test_cell_that_shows_it_follows_at_most_once_per_second(notebook: Notebook, now_s: list[float]) -> None:
    table = BatchTable()
    complete(table, 1)
    show(table)
    assert rows(notebook.cells[0]) == ["1,000"]
    seen = []
    for number in range(2, 6):
        complete(table, number)
        seen.append(len(rows(notebook.cells[0])))
        now_s[0] += 0.5
    assert seen == [2, 2, 4, 4]


def test_the_last_cell_follows(notebook: Notebook, now_s: list[float]) -> None:
    table = BatchTable()
    show(table)
    show(table)
    complete(table, 1)
    assert [rows(cell) for cell in notebook.cells] == [[], ["1,000"]]


def test_without_a_notebook_it_is_a_listener() -> None:
    table = BatchTable()
    complete(table, 1)
    assert rows(shown(table)) == ["1,000"]


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "3"])
def test_number_of_batches_is_checked(number: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a positive integer"):
        BatchTable(number)
