"""What the pages say, without a browser."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import pytest
from attrs import evolve
from plugins.ui.tests.snapshots import HOSTILE, snapshot

from penstock_ui.dashboard.pages import PAGES, Page, render_parts
from penstock_ui.dashboard.query import Query
from penstock_ui.snapshot import Application, Snapshot, error_line
from penstock_ui.spark_jobs import JobInfo

BY_PATH = {page.path: page for page in PAGES}
TROUBLE = {0: "hostile", 3: "stopped", 7: "given up", 11: "unhealthy", 20: "lost"}


class Reader(HTMLParser):
    """Finds text, tags and addresses, and that every tag is closed."""

    VOID = frozenset({"input", "meta", "link", "br", "img", "rect", "circle", "path", "polyline"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.handlers: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name in {"href", "src", "action"}:
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def read(path: str, state: Snapshot, query: Query | None = None) -> Reader:
    return Reader("".join(render_parts(BY_PATH[path], state, query or Query(), state.time_ms).values()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
@pytest.mark.parametrize("receivers", [0, 1, 50])
@pytest.mark.parametrize("live", [True, False], ids=["live", "history"])
def test_every_page_is_sound_html_without_foreign_tags_or_addresses(page: Page, receivers: int, live: bool) -> None:
    state = snapshot(receivers, 70, problems={k: v for k, v in TROUBLE.items() if k < receivers}, live=live)
    for id_ in (0, state.batches[60].time_ms, 10**14, None):
        found = read(page.path, state, Query(id=id_))
        assert not {"script", "img", "i" if page.path == "/stream" else "b-", "iframe"} & set(found.tags)
        assert found.handlers == []
        hosts = [address for address in found.addresses if "//" in address]
        assert all(address.startswith("http://127.0.0.1:4040/jobs/job/?id=") for address in hosts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_every_page_of_an_application_that_never_ran_can_be_shown(page: Page) -> None:
    assert read(page.path, Snapshot(application=Application()), Query(id=1)).text


def test_hostile_names_and_errors_are_text() -> None:
    state = snapshot(2, 70, problems={0: "hostile"})
    for path in ("/", "/streams", "/stream", "/rate"):
        assert HOSTILE in read(path, state, Query(id=0)).text
    hostile = evolve(state, application=evolve(state.application, spark_ui_url="javascript:alert(1)"))
    found = read("/batch", hostile, Query(id=state.batches[60].time_ms))
    assert not any("javascript" in address for address in found.addresses)
    assert "ConnectionRefusedError: [Errno 111] Connection refused: <b>sink-2</b>:5432" in found.text


def test_the_row_of_a_failure_names_the_error_also_of_one_that_came_through_the_jvm() -> None:
    python = 'Traceback (most recent call last):\n  File "a.py", line 1\nZeroDivisionError: division by zero\n'
    assert error_line(python) == "ZeroDivisionError: division by zero"
    frames = "\n\tat org.apache.spark.Task.run(Task.scala:1)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    through_jvm = f"Py4JJavaError: calling o1.collect.\n: SparkException: Job aborted: {python}{frames}"
    assert error_line(through_jvm) == "ZeroDivisionError: division by zero"
    of_java = f": SparkException: failed{frames}Caused by: java.io.IOException: disk full{frames}\t... 1 more\n"
    assert error_line(of_java) == "Caused by: java.io.IOException: disk full"
    assert [error_line(text) for text in ("", " x ", "\tat y")] == ["", "x", "at y"]


def test_the_last_lines_of_a_failed_receivers_log_are_on_its_page() -> None:
    state = snapshot(1, 5, problems={0: "stopped"})
    (stream,) = state.streams
    assert "Last lines of its log" not in read("/stream", state, Query(id=0)).text
    assert stream.receiver is not None
    lines = ("connecting", f"refused {HOSTILE}")
    logged = evolve(stream, receiver=evolve(stream.receiver, last_log_lines=lines))
    found = read("/stream", evolve(state, streams=(logged,)), Query(id=0))
    assert f"Last lines of its log connecting refused {HOSTILE}" in found.text


def test_page_of_a_stream_shows_how_far_its_receiver_is_behind() -> None:
    text = read("/stream", snapshot(3, 10, problems={2: "lost"}), Query(id=2)).text
    assert "Lag 1,202 messages, 3.5 sec; oldest unacknowledged 800 ms" in text
    assert "Redelivered 40 2 dead letters" in text


def test_a_hostile_query_is_text() -> None:
    found = read("/streams", snapshot(60, 10), Query(text=HOSTILE[:100], sort=HOSTILE, show=HOSTILE))
    assert "script" not in found.tags
    assert "None." in found.text


def test_the_overview_says_what_spark_says() -> None:
    text = read("/", snapshot(2, 70)).text
    assert "Running batches of 1.0 sec for" in text
    assert "Timelines (last 71 batches, 1 active, 70 completed)" in text
    for heading in (
        "Input Rate records/s",
        "Scheduling Delay",
        "Processing Time",
        "Total Delay",
        "Receivers: 2 / 2 active",
        "Running Batches (1)",
        "Waiting Batches (0)",
        "Completed Batches (last 70 out of 70)",
    ):
        assert heading in text


def test_numbers_of_a_batch_are_those_of_the_batch() -> None:
    state = snapshot(3, 70)
    batch = state.batches[60]
    text = read("/batch", state, Query(id=batch.time_ms)).text
    assert "failed" in text
    assert f"Input data size {batch.records:,} records" in text
    assert f"Scheduling delay {batch.scheduling_delay_ms} ms" in text
    assert "2/3 (1 failed)" in text
    assert "write at /srv/app/orders.py:41" in text
    assert batch.inputs is not None
    for info in batch.inputs.values():
        assert f"{info.numRecords:,}" in text


def test_batch_that_waits_to_run_again_says_so_in_tables_and_on_its_page() -> None:
    state = snapshot(1, 70)
    failed, after = state.batches[60], state.batches[61:]
    waits = evolve(state, batches=(*state.batches[:60], evolve(failed, awaits_rerun=True), *after))
    for page, words in (("/batches", "(1 failed, waiting to run again)"), ("/batch", ": failed, waiting to run again")):
        query = Query(id=failed.time_ms)
        assert words in read(page, waits, query).text
        assert "waiting to run again" not in read(page, state, query).text
    storage = evolve(state.storage, failed_batches=3, oldest_failed_ms=failed.time_ms)
    assert "Failed batches 3 wait to run again, the oldest of" in read("/", evolve(state, storage=storage)).text


def test_the_page_of_a_batch_shows_the_metadata_of_its_outputs() -> None:
    state = snapshot(1, 70)
    batch = state.batches[60]
    assert batch.operations is not None
    first, *others = batch.operations
    described = evolve(first, metadata={"table": "<orders>", "rows": 3, "commit_seconds": 0.25})
    batches = tuple(evolve(each, operations=(described, *others)) if each is batch else each for each in state.batches)
    found = read("/batch", evolve(state, batches=batches), Query(id=batch.time_ms))
    assert "table <orders>, rows 3, commit seconds 0.25" in found.text


def test_the_page_of_a_batch_has_a_row_for_each_job_with_stages_and_tasks() -> None:
    state = snapshot(1, 70)
    batch = state.batches[60]
    assert batch.operations is not None
    found = read("/batch", state, Query(id=batch.time_ms))
    jobs = [job for operation in batch.operations for job in operation.jobs]
    assert len(jobs) == 4
    links = [address.partition("id=")[2] for address in found.addresses if "/jobs/job/" in address]
    assert links == [str(job.job_id) for operation in batch.operations for job in operation.jobs]
    assert "1/1 (1 skipped) 4/4" in found.text
    assert "0/1 (1 failed) (1 skipped) 3/4 (1 failed)" in found.text
    (html,) = [
        part for part in render_parts(BY_PATH["/batch"], state, Query(id=batch.time_ms), 0).values() if "Job" in part
    ]
    assert html.count('rowspan="2"') == 5


def test_jobs_that_run_or_are_unknown_or_too_many_are_told() -> None:
    state = snapshot(1, 3)
    batch = state.batches[1]
    assert batch.operations is not None
    first, *others = batch.operations
    job = first.jobs[0]

    def shown(jobs: tuple[JobInfo, ...], *, live: bool = True) -> Reader:
        operations = (evolve(first, jobs=jobs), *(evolve(other, jobs=()) for other in others))
        changed = evolve(batch, operations=operations)
        return read("/batch", evolve(state, batches=(changed,), is_live=live), Query(id=batch.time_ms))

    running = evolve(job, completed_ms=None, submitted_ms=state.time_ms - 4000, num_succeeded_stages=0)
    assert "4.0 sec so far 0/1 4/4" in shown((running,)).text
    assert "so far" not in shown((running,), live=False).text
    many = shown(tuple(evolve(job, job_id=number) for number in range(130)))
    assert "and 30 more jobs" in many.text
    assert "No Spark job of this batch is known" in shown(()).text
    ended = shown((), live=False)
    assert "The event log has no Spark job of this batch" in ended.text
    assert shown((job,), live=False).addresses == [address for address in ended.addresses if "4040" not in address]


def test_missing_and_unknown_ids_are_told() -> None:
    state = snapshot(1, 5)
    assert "Missing id parameter" in read("/batch", state).text
    assert "Batch 99 does not exist" in read("/batch", state, Query(id=99)).text
    assert "Missing id parameter" in read("/stream", state).text
    assert "Stream 99 does not exist" in read("/stream", state, Query(id=99)).text


def test_a_batch_whose_details_were_dropped_still_has_its_page() -> None:
    state = snapshot(1, 50, details=10)
    assert "The details of this batch were dropped" in read("/batch", state, Query(id=state.batches[0].time_ms)).text


def test_receivers_with_problems_come_first_and_can_be_asked_for() -> None:
    state = snapshot(50, 10, problems=TROUBLE)
    ids = [int(a.split("=")[1]) for a in read("/streams", state).addresses if a.startswith("stream?id=")]
    assert ids[:6] == [3, 7, 0, 11, 20, 1]
    ids = [int(a.split("=")[1]) for a in read("/streams", state, Query(show="problems")).addresses if "stream?id" in a]
    assert ids == [3, 7, 0, 11, 20]
    found = read("/streams", state, Query(text="broker-11<")).addresses
    assert [address for address in found if address.startswith("stream?")] == ["stream?id=11"]
    assert "5 of 50" in read("/", state).text


def test_failed_waiting_and_chosen_batches_can_be_listed() -> None:
    state = snapshot(1, 170, slow=True)
    times = [batch.time_ms for batch in state.batches]

    def listed(query: Query) -> list[int]:
        found = (re.fullmatch(r"batch\?id=(\d+)", address) for address in read("/batches", state, query).addresses)
        return [times.index(int(match[1])) for match in found if match]

    assert listed(Query())[:3] == [169, 168, 167]
    assert listed(Query(page=4)) == list(range(19, -1, -1))
    assert listed(Query(show="failed")) == [157, 60]
    assert listed(Query(show="waiting")) == list(range(178, 170, -1))
    assert listed(Query(first=times[3], last=times[5], descending=False)) == [3, 4, 5]
    longest = max(range(170), key=lambda number: state.batches[number].processing_delay_ms or 0)
    assert listed(Query(sort="processing"))[0] == longest


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Counts the calls that this thread makes: the same on a busy machine."""
    calls: Counter[str] = Counter()

    def note(_frame: object, event: str, _argument: object) -> None:
        if event in {"call", "c_call"}:
            calls[event] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def test_pages_stay_small_and_quick_with_a_thousand_receivers_and_ten_thousand_batches() -> None:
    state = snapshot(1000, 10_000, details=100)
    for page in PAGES:
        ids = (state.batches[-5].time_ms, 7) if page.path in {"/batch", "/stream"} else (None,)
        for id_ in ids:
            # What a first call imports and compiles does not count.
            render_parts(page, state, Query(id=id_), state.time_ms)
            with counted_calls() as calls:
                parts = render_parts(page, state, Query(id=id_), state.time_ms)
            assert sum(map(len, parts.values())) < 120_000, page.path
            # The slowest page made 38,000 calls. One for each batch of each receiver would be millions.
            assert calls.total() < 100_000, page.path


def test_the_graph_is_drawn_for_wide_and_for_narrow_windows() -> None:
    found = read("/graph", snapshot(1, 5))
    assert found.tags.count("rect") == found.tags.count("circle") == 10
    assert "<b>words</b>" in found.text


def test_every_output_operation_is_marked_in_the_graph_whatever_its_class() -> None:
    state = snapshot(2, 5)
    parts = render_parts(BY_PATH["/graph"], state, Query(), state.time_ms)
    assert parts["dstream-graph"].count('class="output"') == 2 * 4


def test_receivers_with_problems_are_marked_in_the_graph() -> None:
    state = snapshot(2, 5, problems={1: "stopped"})
    parts = render_parts(BY_PATH["/graph"], state, Query(), state.time_ms)
    assert parts["dstream-graph"].count('class="input problem"') == 2
    assert parts["dstream-graph"].count('class="input"') == 2
