"""The rows of the comparison: which work, with which engines, at which sizes, and the goals of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from benchmarks.sender import Pace

_BATCH_ENGINES = (
    "penstock",
    "penstock-dataframe",
    "pyspark",
    "pyspark-unix",
    "structured-python",
    "structured-arrow",
)
_LINE_ENGINES = (*_BATCH_ENGINES, "bytewax", "bare-rows", "bare-python")
_WARM_ENGINES = (
    "penstock",
    "penstock-dataframe",
    "pyspark-unix",
    "structured-penstock",
    "structured-python",
    "structured-arrow",
    "bare-structured",
    "bare-dataframe",
)
# Lines that warm an engine up, in how many portions, and how long after them the others are sent.
_WARM_UP, _PORTIONS, _PAUSE_S = 3_000_000, 10, 20.0
_STRUCTURED_ENGINES = (*_LINE_ENGINES[:4], "structured-penstock", *_LINE_ENGINES[4:], "bare-dataframe")
_DSTREAM_ENGINES = ("penstock", "pyspark", "pyspark-unix")
_NO_DRAIN = {"structured-socket": "it had no answer to three million lines after three minutes"}
_NO_KEYED_BATCHES = {
    "structured-python": "windows and state there follow event time, not batches: no equal answer per batch",
    "bytewax": "windows and state there follow event time, not batches: no equal answer per batch",
}
_BURST_PERIOD_S = 0.02


@frozen
class Point:
    """One size of a row.

    Attributes:
        x: the size, in the row's axis.
        task: fields of the task.
        line_bytes: size of a line.
        receivers: how many receivers; 0: no lines are sent.
        pace: how lines are sent.
        warm_up: batches that delays leave out at this size, besides those of the row, from the first with records.
    """

    x: float
    task: Mapping[str, Any]
    line_bytes: int = 100
    receivers: int = 1
    pace: Pace = field(factory=Pace)
    warm_up: int = 0


@frozen
class Goal:
    """What the median of an engine's metric is to be: ``factor`` x the peer's, plus ``offset``.

    Attributes:
        metric: name of the metric; ``ratio`` goals have a peer and no offset.
        relation: ``>=`` or ``<=``.
        factor: times the peer's figure.
        peer: whose figure; empty: none.
        offset: added to it.
        engine: whose goal it is.
        x: the point at which it counts; ``None``: the only one.
        limit: engine that does the same work without streaming; empty: there is none.
    """

    metric: str
    relation: str
    factor: float = 0.0
    peer: str = ""
    offset: float = 0.0
    engine: str = "penstock"
    x: float | None = None
    limit: str = ""


@frozen
class Row:
    """One comparison.

    Attributes:
        name: on the command line.
        title: of its section.
        summary: what is done and measured.
        work: of the tasks.
        engines: names, in the order of the table.
        points: at least one.
        metrics: of the table; the ratios and the plot are those of the first.
        axis: what the points vary; empty for a single point.
        warm_up: batches that delays leave out, from the first with records.
        goals: to be met.
        left_out: why an engine that is usual elsewhere is not here.
    """

    name: str
    title: str
    summary: str
    work: str
    engines: tuple[str, ...]
    points: tuple[Point, ...]
    metrics: tuple[str, ...]
    axis: str = ""
    warm_up: int = 0
    goals: tuple[Goal, ...] = ()
    left_out: Mapping[str, str] = field(factory=dict)


# The peers are those of the strongest form: DStreams over Unix sockets, and a Python data source that yields Arrow.
_DATAFRAME_GOALS = (
    Goal("records_per_s", ">=", 8, "pyspark-unix", engine="penstock-dataframe", limit="bare-dataframe"),
    Goal("records_per_s", ">=", 4, "structured-arrow", engine="penstock-dataframe", limit="bare-dataframe"),
)
# A loop of kernels in one process per slot is at most 1.5 times as fast.
_ARROW_GOALS = (
    Goal("records_per_s", ">=", 8, "pyspark-unix", engine="penstock-arrow", limit="bare-kernels"),
    Goal("records_per_s", ">=", 0.67, "bare-kernels", engine="penstock-arrow"),
)
_FROM_START_GOALS = tuple(
    Goal("from_start_s", "<=", 1, "pyspark-unix", engine=engine) for engine in ("penstock", "penstock-dataframe")
)
#: The rows behind the README's figures: their engines, and their points if not all.
HEADLINES: Mapping[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "receive": (("penstock", "pyspark-unix", "bare-python"), ()),
    "count": (("penstock", "penstock-dataframe", "pyspark-unix", "bare-rows"), ()),
    "grep": (("penstock", "pyspark-unix", "bare-rows"), ()),
    "wordcount": (
        ("penstock", "penstock-dataframe", "pyspark-unix", "structured-arrow", "bare-rows", "bare-dataframe"),
        (),
    ),
    "count-warm": (("structured-penstock", "structured-arrow", "bare-structured"), ()),
    "latency": (("penstock", "pyspark-unix", "bare-spark"), (0.1,)),
}


def make_rows(cores: int, *, is_quick: bool = False) -> dict[str, Row]:
    """All rows by name.

    Args:
        cores: of this machine; each engine has this many slots for tasks, besides those of its receivers.
        is_quick: with sizes that say nothing about speed, to see that everything works.
    """
    rows = [*_drains(cores, is_quick), *_keyed(cores, is_quick), *_delays(cores, is_quick), *_sizes(cores, is_quick)]
    if is_quick:
        # The same programs as those of the engine beside it.
        rows = [evolve(row, engines=tuple(name for name in row.engines if name != "pyspark-unix")) for row in rows]
    return {row.name: row for row in rows}


def _drain(cores: int, num_lines: int, line_bytes: int = 100, receivers: int = 1, x: float = 0.0) -> Point:
    """Lines as fast as they are taken; the same number for each receiver."""
    # The Python data source keeps all that is to come in the heap.
    heap = {"spark.driver.memory": "4g"}
    task = {"records": num_lines // receivers * receivers, "cores": cores, "conf": heap}
    return Point(x, task, line_bytes, receivers)


def _drains(cores: int, is_quick: bool) -> list[Row]:
    lines = 3_000 if is_quick else 3_000_000
    metrics = ("records_per_s", "cpu_us_per_record", "memory_mb")
    from_start = (
        "records_per_s",
        "from_start_s",
        "processing_p50_ms",
        "cpu_us_per_record",
        "memory_mb",
    )
    drained = "{lines:,} lines of 100 bytes through one socket at full speed; batches of 1 s. ".format
    warm = [
        Row(
            f"{work}-warm",
            f"{title}, warm",
            drained(lines=lines)
            + f"Another {min(_WARM_UP, lines):,} come before in {_PORTIONS} portions, the last of them "
            f"{_PAUSE_S:g} s before, and are not counted.",
            work,
            (*_WARM_ENGINES, *(("penstock-arrow", "bare-kernels") if work == "wordcount" else ())),
            (
                evolve(
                    _drain(cores, lines + min(_WARM_UP, lines)),
                    pace=Pace(warm_up=min(_WARM_UP, lines), portions=_PORTIONS, pause_s=_PAUSE_S),
                ),
            ),
            ("records_per_s", "processing_p50_ms", "cpu_us_per_record", "memory_mb"),
            goals=(
                Goal(
                    "records_per_s", ">=", 4, "structured-arrow", engine="structured-penstock", limit="bare-structured"
                ),
                *((*_DATAFRAME_GOALS, *_ARROW_GOALS) if work == "wordcount" else ()),
            ),
            left_out=_NO_DRAIN,
        )
        for work, title in (("count", "Count"), ("wordcount", "Word count"))
    ]
    return [
        Row(
            "receive",
            "Receive only",
            drained(lines=10_000 if is_quick else 10_000_000) + "The batches do nothing with them.",
            "receive",
            ("penstock", "pyspark-unix", "structured-python", "structured-arrow", "bytewax", "bare-python"),
            (_drain(cores, 10_000 if is_quick else 10_000_000),),
            ("records_per_s", "records_per_core_s", "memory_mb", "workers_mb"),
            goals=(
                Goal("records_per_core_s", ">=", 0.8, "bare-python"),
                # 1 GB passes through the receiver.
                Goal("workers_mb", "<=", offset=200.0),
            ),
            left_out=_NO_DRAIN,
        ),
        Row(
            "count",
            "Count",
            drained(lines=lines) + "Each batch counts them.",
            "count",
            _STRUCTURED_ENGINES,
            (_drain(cores, lines),),
            from_start,
            goals=(Goal("records_per_s", ">=", 10, "pyspark-unix", limit="bare-rows"), *_FROM_START_GOALS),
            left_out=_NO_DRAIN,
        ),
        Row(
            "grep",
            "Grep",
            drained(lines=lines) + "Each batch counts those that hold two given letters.",
            "grep",
            _LINE_ENGINES,
            (_drain(cores, lines),),
            metrics,
            goals=(Goal("records_per_s", ">=", 8, "pyspark-unix", limit="bare-rows"),),
            left_out=_NO_DRAIN,
        ),
        Row(
            "wordcount",
            "Word count",
            drained(lines=lines) + "Each batch counts each word and collects the counts.",
            "wordcount",
            (*_STRUCTURED_ENGINES, "penstock-arrow", "bare-kernels"),
            (_drain(cores, lines),),
            from_start,
            goals=(
                Goal("records_per_s", ">=", 3, "pyspark-unix", limit="bare-rows"),
                *_DATAFRAME_GOALS,
                *_ARROW_GOALS,
            ),
            left_out=_NO_DRAIN,
        ),
        Row(
            "topk",
            "Top-k",
            drained(lines=lines) + "Each batch counts each word and takes the ten most frequent.",
            "topk",
            _BATCH_ENGINES,
            (_drain(cores, lines),),
            metrics,
            left_out={**_NO_DRAIN, "bytewax": "it has no batches whose ten words could be compared"},
        ),
        *warm,
    ]


def _keyed(cores: int, is_quick: bool) -> list[Row]:
    heap = {"spark.driver.memory": "2g"}
    slides = (3,) if is_quick else (1, 10, 60)
    keys = (1_000,) if is_quick else (1_000, 10_000, 100_000, 1_000_000)
    records = 200 if is_quick else 10_000
    window = {"cores": cores, "interval_s": 0.5, "batch_records": records, "keys": 2 * records, "conf": heap}
    state = {"cores": cores, "interval_s": 0.5, "batches": 6 if is_quick else 32, "conf": heap}
    states = tuple(Point(number, {**state, "keys": number}, receivers=0) for number in keys)
    return [
        Row(
            "window",
            "Window without an inverse function",
            f"Batches of {records:,} pairs from memory, every 0.5 s; each reduces the window by key.",
            "window",
            _DSTREAM_ENGINES,
            tuple(
                Point(n, {**window, "slides": n, "batches": n + (3 if is_quick else 20)}, receivers=0, warm_up=n)
                for n in slides
            ),
            ("processing_p50_ms", "processing_p99_ms", "cpu_ms_per_batch"),
            axis="window length in batches",
            left_out=_NO_KEYED_BATCHES,
        ),
        Row(
            "state",
            "State by key, `updateStateByKey`",
            "Batches of 1,000 pairs from memory, every 0.5 s; each updates and reads the state of every key.",
            "updateStateByKey",
            _DSTREAM_ENGINES,
            states,
            ("processing_p50_ms", "processing_p99_ms", "cpu_ms_per_batch"),
            axis="keys",
            warm_up=2,
            left_out=_NO_KEYED_BATCHES,
        ),
        Row(
            "map-with-state",
            "State by key, `mapWithState`",
            "The same with `mapWithState`, which `pyspark.streaming` lacks: there it is `updateStateByKey`.",
            "mapWithState",
            _DSTREAM_ENGINES,
            states,
            ("processing_p50_ms", "processing_p99_ms", "cpu_ms_per_batch"),
            axis="keys",
            warm_up=2,
            left_out=_NO_KEYED_BATCHES,
        ),
    ]


def _paced(cores: int, interval_s: float, batches: int, per_s: int = 1000) -> Point:
    """A steady stream of lines, each burst stamped."""
    burst = max(1, round(per_s * _BURST_PERIOD_S))
    bursts = max(1, round(interval_s * batches / _BURST_PERIOD_S))
    task = {"records": burst * bursts, "cores": cores, "interval_s": interval_s, "is_paced": True}
    return Point(interval_s, task, pace=Pace(burst, _BURST_PERIOD_S, is_stamped=True))


def _delays(cores: int, is_quick: bool) -> list[Row]:
    intervals = (0.2,) if is_quick else (1.0, 0.2, 0.1, 0.05, 0.02)
    goals = (
        ()
        if is_quick
        else (
            *(Goal("processing_p50_ms", "<=", 1.1, "bare-spark", x=x) for x in (1.0, 0.2, 0.1)),
            Goal("scheduling_p99_ms", "<=", offset=50.0, x=0.05, limit="bare-spark"),
            Goal("scheduling_p99_ms", "<=", offset=20.0, x=0.02, limit="bare-spark"),
        )
    )
    return [
        Row(
            "latency",
            "Latency of small batches",
            "1,000 lines/s, each batch counts each word and collects the counts. End to end: from the sending of a "
            "line to its count in the program. An interval holds if the scheduling delay stays below it. Delays "
            "leave out the first 5 s, and at least 20 batches, in which Spark starts workers and loads classes.",
            "wordcount",
            (
                *(name for name in _STRUCTURED_ENGINES if name not in ("bare-rows", "bare-python")),
                "structured-socket",
                "bare-spark",
            ),
            tuple(
                evolve(
                    _paced(cores, interval, 8 if is_quick else max(60, round(30 / interval))),
                    warm_up=2 if is_quick else max(20, round(5 / interval)),
                )
                for interval in intervals
            ),
            ("processing_p50_ms", "processing_p99_ms", "scheduling_p99_ms", "end_to_end_p50_ms", "end_to_end_p99_ms"),
            axis="batch interval, s",
            goals=goals,
        ),
        Row(
            "empty",
            "A batch without data",
            "Word count of a connected socket that sends nothing, every 0.5 s. The bare job runs beside nothing.",
            "wordcount",
            (*_DSTREAM_ENGINES, "bare-spark"),
            (Point(0.0, {"cores": cores, "batches": 5 if is_quick else 80, "interval_s": 0.5}),),
            ("processing_p50_ms", "processing_p99_ms", "driver_cpu_ms_per_batch", "cpu_ms_per_batch"),
            warm_up=2 if is_quick else 20,
            goals=(Goal("processing_p50_ms", "<=", 1, "bare-spark", offset=5.0),),
            left_out={"structured-python": "it runs no batch without data"},
        ),
        Row(
            "batches-run",
            "Cost over the number of batches run",
            "1,000 lines/s, word count every 0.25 s; a drift above 1 means that batches get slower.",
            "wordcount",
            _DSTREAM_ENGINES,
            (_paced(cores, 0.25, 16 if is_quick else 400),),
            ("drift", "processing_p50_ms", "memory_mb", "driver_mb", "jvm_mb", "workers_mb"),
            warm_up=2 if is_quick else 50,
        ),
    ]


def _sizes(cores: int, is_quick: bool) -> list[Row]:
    shrink = 1_000 if is_quick else 1
    queues = {"cores": cores, "interval_s": 2.0, "batches": 3 if is_quick else 20, "batch_records": 100}
    sizes = (1_000,) if is_quick else (100, 1_000, 10_000, 100_000, 300_000)
    records = ((10, 5_000_000), (100, 3_000_000), (1_000, 500_000), (10_000, 50_000))[-1 if is_quick else 0 :]
    amounts = (1_000_000, 3_000_000, 10_000_000)[-1 if is_quick else 0 :]
    return [
        Row(
            "streams",
            "Several streams",
            "Each stream has batches of 100 records from memory every 2 s and one output operation that counts them.",
            "streams",
            _DSTREAM_ENGINES,
            tuple(Point(n, {**queues, "streams": n}, receivers=0) for n in ((3,) if is_quick else (1, 10, 50))),
            ("processing_p50_ms", "processing_p99_ms", "cpu_ms_per_batch"),
            axis="streams",
            warm_up=1 if is_quick else 3,
            left_out={"structured-python": "each stream would be a query of its own, without common batches"},
        ),
        Row(
            "receivers",
            "Several receivers",
            f"{4_000_000 // shrink:,} lines of 100 bytes through as many sockets at full speed; counted.",
            "count",
            _DSTREAM_ENGINES,
            tuple(_drain(cores, 4_000_000 // shrink, receivers=n, x=n) for n in ((4,) if is_quick else (1, 4))),
            ("records_per_s", "cpu_us_per_record", "memory_mb"),
            axis="receivers",
            left_out={"structured-python": "one query reads one socket"},
        ),
        Row(
            "record-size",
            "Size of the records",
            "Lines of about this size through one socket at full speed; counted.",
            "count",
            ("penstock", "pyspark", "pyspark-unix", "structured-python", "bytewax", "bare-python"),
            tuple(_drain(cores, lines // shrink, size, x=size) for size, lines in records),
            ("records_per_s", "cpu_us_per_record", "memory_mb"),
            axis="bytes of a record",
        ),
        Row(
            "batch-size",
            "Cost over the size of the batch",
            "This many lines at once, every 2 s; each batch counts each word and collects the counts.",
            "wordcount",
            ("penstock", "penstock-dataframe", "pyspark", "pyspark-unix", "structured-python"),
            tuple(_bursts(cores, size, 4 if is_quick else 12) for size in sizes),
            ("processing_p50_ms", "processing_p99_ms", "cpu_us_per_record"),
            axis="records in a batch",
            warm_up=1 if is_quick else 3,
        ),
        Row(
            "memory",
            "Memory over the amount of data",
            "This many lines of 100 bytes through one socket at full speed; counted. Flat is good.",
            "count",
            ("penstock", "pyspark", "structured-python", "bytewax"),
            tuple(_drain(cores, lines // shrink, x=lines // shrink) for lines in amounts),
            ("memory_mb", "driver_mb", "jvm_mb", "workers_mb"),
            axis="lines",
        ),
    ]


def _bursts(cores: int, size: int, batches: int) -> Point:
    task = {"records": size * batches, "cores": cores, "interval_s": 2.0, "is_paced": True}
    return Point(size, task, pace=Pace(size, 2.0))
