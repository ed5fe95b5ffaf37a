"""``LatestBatch`` without Spark: the rows of the last batch, limits, pickling, and what a notebook shows."""

from __future__ import annotations

import pickle
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock import StreamingStateError
from penstock_dataframes.latest_batch import LatestBatch

TIME = datetime(2026, 1, 1, 12)


class Rows:
    """Stands for a DataFrame."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def limit(self, n: int) -> Rows:
        return Rows(self._table.slice(0, n))

    def toArrow(self) -> pa.Table:
        return self._table


class Stream:
    """Stands for a stream of DataFrames."""

    def foreachDataFrame(self, func: Any) -> None:
        Stream.output = func

    output: Any = None


def latest_of(*tables: pa.Table, n: int = 1000) -> LatestBatch:
    stream: Any = Stream()
    latest = LatestBatch(stream, n)
    for table in tables:
        Stream.output(TIME, Rows(table))
    return latest


def test_the_last_batch_is_a_pandas_dataframe() -> None:
    latest = latest_of(pa.table({"word": ["old"]}), pa.table({"word": ["a", "b", "c"], "count": [1, 2, 3]}), n=2)
    assert latest.toPandas().to_dict("list") == {"word": ["a", "b"], "count": [1, 2]}
    assert latest.time == TIME
    assert repr(latest) == "<LatestBatch 2026-01-01 12:00:00: 2 rows of word, count>"


def test_a_notebook_shows_a_table_with_escaped_values() -> None:
    html = latest_of(pa.table({"word": ["<script>"]}))._repr_html_()  # which Jupyter calls
    assert html.startswith("<p>Batch 2026-01-01 12:00:00</p><table")
    assert "&lt;script&gt;" in html


def test_before_the_first_batch_there_is_nothing_to_show() -> None:
    latest = latest_of()
    assert latest.time is None
    assert latest._repr_html_() == "<p>LatestBatch: no batch yet</p>"  # which Jupyter calls
    with pytest.raises(StreamingStateError, match="no batch with known columns has run yet"):
        latest.toPandas()


def test_a_checkpoint_contains_no_rows() -> None:
    latest = latest_of(pa.table({"word": ["a"]}))
    assert pickle.loads(pickle.dumps(latest)).time is None


@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_numbers_of_rows_that_keep_nothing_are_refused(n: Any) -> None:
    with pytest.raises(ValueError, match="a whole number of rows above zero"):
        latest_of(n=n)
