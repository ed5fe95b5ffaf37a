"""What the demo shows of given batches: the table, the lines and the summary."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from penstock_cli.demo_view import BatchTable, ViewedBatch, line, summary
from penstock_testing import batch_info

NOON_MS = 12 * 3_600_000


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def batch(
    number: int, records: int, scheduling: int | None, processing: int | None, failure: str | None = None, **more: Any
) -> ViewedBatch:
    batch_time = NOON_MS + number * 1000
    info = batch_info(
        batch_time, records=records, schedulingDelay=scheduling, processingDelay=processing, failureReason=failure
    )
    return ViewedBatch(info, **{"interval_ms": 1000, **more})


THREE = [
    batch(1, 0, 0, 20),
    batch(2, 9_000, 1, 300, top_words=(("the", 900), ("[red]", 80))),
    batch(3, 12_345, 5, 1_200, rate_limit=10_000.4, top_words=(("of", 1_000), ("and", 70))),
]
FAILURE = """Traceback (most recent call last):
  File "job.py", line 1, in run
py4j.protocol.Py4JJavaError: An error occurred: Traceback (most recent call last):
  File "app.py", line 9, in f
ValueError: no such word

\tat org.apache.spark.api.python.PythonRunner
\tat java.lang.Thread.run
"""


def drawn(batches: list[ViewedBatch], width: int = 80) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(BatchTable(batches))
    return [text.rstrip() for text in captured.get().splitlines()]


def test_table_has_a_row_per_batch_and_the_top_words() -> None:
    assert drawn(THREE) == [
        "batch      records   records/s   scheduling   processing      total   rate limit",
        "────────────────────────────────────────────────────────────────────────────────",
        "12:00:01         0           0         0 ms        20 ms      20 ms         none",
        "12:00:02     9,000       9,000         1 ms       300 ms     301 ms         none",
        "12:00:03    12,345      12,345         5 ms     1,200 ms   1,205 ms       10,000",
        "",
        "top words  of 1,000, and 70",
    ]


@pytest.mark.parametrize(
    ("width", "gone"),
    [
        (100, set()),
        (79, {"records/s"}),
        (67, {"records/s", "scheduling"}),
        (50, {"records/s", "scheduling", "rate limit"}),
    ],
)
def test_columns_that_do_not_fit_are_left_out(width: int, gone: set[str]) -> None:
    text = "\n".join(drawn(THREE, width))
    columns = {"batch", "records", "records/s", "scheduling", "processing", "total", "rate limit"}
    head = text.splitlines()[0].replace("records/s", "records/s,")
    assert {column for column in columns if column not in head} == gone
    assert "…" not in text
    assert "12,345" in text


def test_words_that_do_not_fit_are_truncated() -> None:
    words = tuple((f"word{number}", 1) for number in range(20))
    (last,) = (text for text in drawn([batch(1, 9, 0, 1, top_words=words)]) if text.startswith("top words"))
    assert len(last) == 80
    assert last.endswith("…")


@pytest.mark.parametrize(
    ("viewed", "colour"),
    [
        (batch(1, 9, 0, 999), "32"),
        (batch(1, 9, 0, 1001), "33"),
        (batch(1, 9, 0, 20, failure=FAILURE), "31"),
        (batch(1, 9, 0, None), None),
    ],
)
def test_colour_of_a_row_shows_whether_the_batch_was_in_time(viewed: ViewedBatch, colour: str | None) -> None:
    console = Console(force_terminal=True, color_system="standard", width=80, no_color=False)
    with console.capture() as captured:
        console.print(BatchTable([viewed]))
    (row,) = (text for text in captured.get().splitlines() if "12:00:01" in text)
    assert [code for code in ("31", "32", "33") if f"\x1b[{code}m" in row] == ([colour] if colour else [])


def test_no_color_is_respected() -> None:
    console = Console(force_terminal=True, color_system="standard", width=80, _environ={"NO_COLOR": "1"})
    with console.capture() as captured:
        console.print(BatchTable(THREE))
    assert "\x1b[3" not in captured.get()


def test_line_of_a_batch() -> None:
    assert line(THREE[1]) == (
        "12:00:02  9,000 records  9,000 records/s  scheduling 1 ms  processing 300 ms  total 301 ms  rate limit none  "
        "top words the 900, [red] 80"
    )


def test_line_of_a_short_batch_shows_milliseconds() -> None:
    assert line(batch(1, 500, 0, 9, interval_ms=250)).startswith("12:00:01.000  500 records  2,000 records/s")


def test_line_of_a_failed_batch_has_the_reason() -> None:
    assert line(batch(1, 5, 0, 9, failure=FAILURE)).endswith("  failed: ValueError: no such word")


def test_batch_without_delays_shows_dashes() -> None:
    assert "scheduling -  processing -  total -" in line(batch(1, 5, None, None))


def test_summary_counts_batches_and_records() -> None:
    assert summary(THREE) == (
        "3 batches, 21,345 records, 7,115 records/s, 0 failed\n"
        "delay p50/max: scheduling 1/5 ms, processing 300/1,200 ms, total 301/1,205 ms"
    )


def test_summary_counts_failed_batches() -> None:
    assert summary([batch(1, 1, None, None, failure=FAILURE)]) == (
        "1 batch, 1 record, 1 records/s, 1 failed\ndelay p50/max: scheduling -, processing -, total -"
    )


def test_summary_without_batches() -> None:
    assert summary([]) == "no batches"
