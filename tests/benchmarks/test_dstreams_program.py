"""The programs of the benchmarks, on the tests' own Spark: their answers are those of plain Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from benchmarks.data import Lines
from benchmarks.measurement import check
from benchmarks.programs import bare_files, dstreams
from benchmarks.programs.task import NotAvailableError, Task
from benchmarks.sender import Pace, Sender

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _pickled_whole() -> Iterator[None]:
    """As the programs' functions are, which are those of the main module."""
    from pyspark import cloudpickle

    programs = [sys.modules[program.__name__] for program in (dstreams, bare_files)]
    for program in programs:
        cloudpickle.register_pickle_by_value(program)
    yield
    for program in programs:
        cloudpickle.unregister_pickle_by_value(program)


@pytest.mark.parametrize("work", ["topk", "wordcount"])
def test_program_on_lines_gives_the_right_answer(sc: SparkContext, work: str) -> None:
    lines = Lines(seed=5)
    with Sender(lines, 200, pace=Pace(50, 0.05, is_stamped=work == "wordcount")) as sender:
        task = Task(work, ports=tuple(sender.ports), records=200, interval_s=0.2, library="penstock", deadline_s=240)
        result = dstreams.run_on(sc, task)
    assert check(task, lines, 1, result) == ""
    assert len(result.delays_ms) == (4 if work == "wordcount" else 0)


@pytest.mark.parametrize(
    ("api", "work"), [("rows", "count"), ("rows", "grep"), ("rows", "wordcount"), ("dataframe", "wordcount")]
)
@pytest.mark.usefixtures("frugal_plans")
def test_limit_processes_the_lines_of_each_interval_and_gives_the_right_answer(
    sc: SparkContext, api: str, work: str
) -> None:
    lines = Lines(seed=5)
    with Sender(lines, 200, pace=Pace(50, 0.3, is_stamped=work == "wordcount")) as sender:
        task = Task(work, ports=tuple(sender.ports), records=200, interval_s=0.2, api=api, deadline_s=240)
        result = bare_files.run_on(sc, task)
    assert check(task, lines, 1, result) == ""
    assert len(result.delays_ms) == (4 if work == "wordcount" else 0)


@pytest.mark.parametrize(
    ("work", "library"),
    [
        ("window", "penstock"),
        ("mapWithState", "penstock"),
        ("streams", "penstock"),
        ("streams", "pyspark.streaming"),
    ],
)
def test_program_on_queues_gives_the_right_answer(sc: SparkContext, work: str, library: str) -> None:
    task = Task(work, batches=3, interval_s=0.2, library=library, deadline_s=240)
    task = evolve(task, batch_records=20, keys=10, slides=2, streams=2)
    result = dstreams.run_on(sc, task)
    assert check(task, Lines(seed=5), 0, result) == ""


def test_row_that_needs_dataframes_says_so_where_there_are_none(
    sc: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock import DStream

    monkeypatch.delattr(DStream, "toDF", raising=False)
    with pytest.raises(NotAvailableError, match=r"DStream\.toDF is missing"):
        dstreams.run_on(sc, Task("count", records=1, library="penstock", api="dataframe"))
