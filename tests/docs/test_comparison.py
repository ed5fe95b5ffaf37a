"""The README's comparison: every cell is held by a test, or by a page of Spark's documentation."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pyspark.streaming
import pytest
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.docs.pages import ROOT

from penstock import DataFrameStream, DStream, StreamingContext
from penstock.plugins.discovery import Plugins

README = (ROOT / "README.md").read_text(encoding="utf-8")
DSTREAMS, STRUCTURED = "streaming-programming-guide.html", "streaming/index.html"
STARTED = "streaming/getting-started.html"
API = "api/python/reference/index.html"
HERE = "tests/docs/test_comparison.py::"


class Held:
    """A cell as it was when its evidence was chosen, and the evidence: a cell that is changed needs a new look.

    Attributes:
        text: the cell.
        evidence: pages below https://spark.apache.org/docs/latest/, and tests.
    """

    def __init__(self, text: str, *evidence: str) -> None:
        self.text = text
        self.evidence = evidence


#: Row → what holds its cells, from left to right.
HELD: dict[str, tuple[Held, Held, Held]] = {
    "state of the project": (
        Held("part of Spark, deprecated", DSTREAMS, HERE + "test_dstreams_of_pyspark_are_deprecated"),
        Held("part of Spark, actively developed", STRUCTURED),
        Held("library on top of Spark, alpha", HERE + "test_penstock_is_alpha"),
    ),
    "a program is": (
        Held("functions of RDDs", DSTREAMS),
        Held("queries over unbounded tables", STARTED),
        Held(
            "functions of RDDs; DataFrames and SQL for each batch",
            "plugins/dataframes/tests/on_spark/test_same_results.py::test_rows_and_frames_over_the_same_blocks_are_equal",
        ),
    ),
    "sources in Python": (
        Held("none", "streaming-custom-receivers.html", HERE + "test_pyspark_has_no_receivers_in_python"),
        Held(
            "pull: planned ranges of offsets", HERE + "test_python_sources_of_structured_streaming_are_asked_for_ranges"
        ),
        Held(
            "push: threads, asyncio, callbacks of a client, acknowledgement after storing",
            "tests/examples/test_receivers.py::test_websocket_messages_are_printed_on_spark",
            "tests/examples/test_receivers.py::test_mqtt_messages_are_acknowledged_once_stored",
            "tests/examples/test_receivers.py::test_line_is_acknowledged_only_once_it_is_stored_also_after_a_stop",
        ),
    ),
    "connectors of the project": (
        Held("sockets, files, Kinesis", DSTREAMS, "streaming-kinesis-integration.html"),
        Held(
            "Kafka, files, sockets",
            "streaming/apis-on-dataframes-and-datasets.html",
            "streaming/structured-streaming-kafka-integration.html",
        ),
        Held(
            "sockets, files, generated data, Kafka, RabbitMQ, MQTT, NATS, Redis, HTTP",
            HERE + "test_connectors_are_those_of_the_plugins",
        ),
    ),
    "event time, watermarks": (
        Held("no", DSTREAMS),
        Held("yes", STARTED),
        Held("no", HERE + "test_only_structured_streaming_has_watermarks"),
    ),
    "latency": (
        Held("a batch interval", DSTREAMS),
        Held(
            "about 100 ms; milliseconds in real-time mode",
            "streaming/real-time-mode.html",
            HERE + "test_structured_streaming_has_a_real_time_mode",
        ),
        Held(
            "a batch interval",
            "tests/schedule/test_job_generator.py::test_first_batch_time_is_the_next_multiple_of_the_interval",
        ),
    ),
    "delivery to the output": (
        Held("at least once", DSTREAMS),
        Held("exactly once with replayable sources and idempotent sinks", STARTED),
        Held(
            "at least once; exactly once if the output is idempotent by batch time",
            "tests/faults/kills/test_driver_crash.py::test_killed_drivers_lose_no_record_and_corrupt_no_state",
            "tests/examples/test_exactly_once.py::test_exactly_once_adds_a_batch_that_runs_again_once",
        ),
    ),
    "input rate": (
        Held(
            "PID, or a fixed limit",
            "configuration.html",
            "plugins/rate/tests/test_pid.py::test_plugin_offers_it_with_sparks_options_and_defaults",
        ),
        Held(
            "fixed limits per trigger",
            "streaming/apis-on-dataframes-and-datasets.html",
            "streaming/structured-streaming-kafka-integration.html",
        ),
        Held(
            "PID, a learned cost model, fixed, or your own estimator",
            HERE + "test_estimators_are_those_of_the_plugins",
            "tests/docs/test_tutorial_rate_estimator.py::test_tutorial_leads_to_a_proven_estimator_and_its_curve",
        ),
    ),
    "state": (
        Held("`updateStateByKey`, windows", HERE + "test_state_is_kept_by_these_operators"),
        Held(
            "aggregations, joins, `transformWithState`",
            "streaming/apis-on-dataframes-and-datasets.html",
            HERE + "test_state_is_kept_by_these_operators",
        ),
        Held("`updateStateByKey`, windows, `mapWithState`", HERE + "test_state_is_kept_by_these_operators"),
    ),
    "Spark Connect": (
        Held("no", API),
        Held("yes", API),
        Held("no: it needs a SparkContext", HERE + "test_a_context_needs_a_spark_context"),
    ),
}


def comparison() -> Iterator[list[str]]:
    """The rows of the table, without its head."""
    table = README.partition("| | `pyspark.streaming` | Structured Streaming | Penstock |\n|---|---|---|---|\n")[2]
    for line in table.partition("\n\n")[0].splitlines():
        yield [cell.strip() for cell in line.strip("|").split("|")]


def cells(row: str) -> list[str]:
    """The cells of one row: `pyspark.streaming`, Structured Streaming, Penstock."""
    return next(found for name, *found in comparison() if name == row)


def test_every_cell_is_the_one_that_is_held() -> None:
    assert {name: found for name, *found in comparison()} == {
        row: [cell.text for cell in cells] for row, cells in HELD.items()
    }


@pytest.mark.parametrize("row", HELD)
def test_every_cell_is_held_by_a_page_or_a_test_that_asserts_something(row: str) -> None:
    for cell in HELD[row]:
        assert cell.evidence, cell.text
        for evidence in cell.evidence:
            path, _, test = evidence.partition("::")
            if test:
                assert asserts(ROOT / path, test), evidence
            else:
                assert path.endswith(".html"), evidence


def asserts(path: Path, name: str) -> bool:
    """Whether a file has a test of this name that runs and can fail."""
    tests = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    (test,) = (test for test in tests if test.name == name)
    decorators = " ".join(map(ast.unparse, test.decorator_list))
    body = ast.unparse(ast.Module(test.body, []))
    return not re.search("skip|xfail", decorators) and bool(
        re.search(r"^\s*assert |\b(raises|wait_for|until_\w+)\(", body, re.M)
    )


def test_dstreams_of_pyspark_are_deprecated() -> None:
    assert ".. deprecated:: Spark 3.4.0" in (pyspark.streaming.StreamingContext.__doc__ or "")


def test_penstock_is_alpha() -> None:
    for folder in ("core", "."):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert "Development Status :: 3 - Alpha" in project["classifiers"]
    assert "alpha" in cells("state of the project")[2]


def test_pyspark_has_no_receivers_in_python() -> None:
    assert [name for name in dir(pyspark.streaming.StreamingContext) if "receiver" in name.lower()] == []
    assert cells("sources in Python")[0] == "none"


def test_python_sources_of_structured_streaming_are_asked_for_ranges() -> None:
    assert list(inspect.signature(DataSourceStreamReader.partitions).parameters) == ["self", "start", "end"]


def test_connectors_are_those_of_the_plugins() -> None:
    plugins = Plugins()
    names = {*plugins.specs("receivers"), *plugins.specs("input_streams")}
    families = {"websocket": "HTTP", "socket": "sockets", "file": "files", "synthetic": "generated data"}
    families |= {"text": "files", "binary": "files", "kafka": "Kafka", "rabbitmq": "RabbitMQ", "mqtt": "MQTT"}
    families |= {"nats": "NATS", "redis": "Redis", "webhook": "HTTP", "sse": "HTTP"}
    for name in names:
        family = next(family for part, family in families.items() if part in name)
        assert family in cells("connectors of the project")[2], name


def test_only_structured_streaming_has_watermarks() -> None:
    have = [hasattr(kind, "withWatermark") for kind in (pyspark.streaming.DStream, DataFrame, DStream, DataFrameStream)]
    assert have == [False, True, False, False]
    assert cells("event time, watermarks") == ["no", "yes", "no"]


def test_structured_streaming_has_a_real_time_mode() -> None:
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
        pytest.skip("real-time mode came with Spark 4.1")
    assert "realTime" in inspect.signature(DataStreamWriter.trigger).parameters


def test_estimators_are_those_of_the_plugins() -> None:
    own = {name for name, spec in Plugins().specs("rate_estimators").items() if "penstock_rate" in repr(spec.factory)}
    assert own == {"pid", "model", "fixed"}
    assert cells("input rate")[2] == "PID, a learned cost model, fixed, or your own estimator"


def test_state_is_kept_by_these_operators() -> None:
    for kind, cell in zip((pyspark.streaming.DStream, GroupedData, DStream), cells("state"), strict=True):
        for name in re.findall(r"`(\w+)`", cell):
            assert hasattr(kind, name), name
        assert ("windows" in cell) == hasattr(kind, "window")
    assert not hasattr(pyspark.streaming.DStream, "mapWithState")


def test_a_context_needs_a_spark_context() -> None:
    assert next(iter(inspect.signature(StreamingContext).parameters)) == "sparkContext"
    assert cells("Spark Connect") == ["no", "yes", "no: it needs a SparkContext"]
