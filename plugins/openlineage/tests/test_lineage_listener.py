"""The events of a run: their order, their datasets and counts, and that they follow OpenLineage's schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from plugins.openlineage.tests.schema import check

from penstock import (
    BatchCompleted,
    BatchInfo,
    ConfigurationError,
    OutputMetadata,
    OutputOperationInfo,
    StreamingStarted,
    StreamInputInfo,
)
from penstock.spi import Option
from penstock_openlineage.lineage_listener import LineageListener, listeners_of
from penstock_openlineage.options import OpenLineageOptions
from penstock_testing import FakeListenerContext

T = 1_700_000_000_000
PREFIX = "spark.penstock.openlineage."


class Context(FakeListenerContext):
    """A program with a clock that the test sets."""

    time_ms = T

    def now_ms(self) -> int:
        return self.time_ms


class Program:
    """A program with two receivers, and the events that the listener reports of it."""

    def __init__(self, **options: Any) -> None:
        self.context = Context({"spark.app.secret.password": "hunter22"})
        self.events: list[dict[str, Any]] = []
        made = OpenLineageOptions(**options)
        self.listener = LineageListener(self.context, made, lambda event: self.events.append(checked(event)))

    def start(self) -> None:
        self.listener.onStreamingStarted(StreamingStarted(T))

    def batch(
        self, records: dict[int, int], *, failure: str | None = None, after_s: float = 1, **metadata: Any
    ) -> None:
        self.context.time_ms += round(after_s * 1000)
        time = self.context.time_ms
        inputs = {id_: StreamInputInfo(id_, count) for id_, count in records.items()}
        operation = OutputOperationInfo(
            time, 0, "foreachRDD at app.py:7", "", time, time, failure, OutputMetadata(metadata)
        )
        self.listener.onBatchCompleted(BatchCompleted(BatchInfo(time, inputs, time, time, time, {0: operation})))

    @property
    def types(self) -> list[str]:
        return [event["eventType"] for event in self.events]


def checked(event: dict[str, Any]) -> dict[str, Any]:
    check(event)
    return event


def rows(event: Mapping[str, Any], kind: str) -> dict[str, int | None]:
    """The number of rows of each dataset."""
    facets, statistics = {
        "inputs": ("inputFacets", "inputStatistics"),
        "outputs": ("outputFacets", "outputStatistics"),
    }[kind]
    return {
        f"{each['namespace']} {each['name']}": each.get(facets, {}).get(statistics, {}).get("rowCount")
        for each in event[kind]
    }


def test_a_run_starts_runs_and_completes() -> None:
    program = Program()
    program.start()
    for _ in range(121):
        program.batch({0: 2, 1: 3})
    program.listener.close()
    program.listener.close()
    assert program.types == ["START", "RUNNING", "RUNNING", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in program.events}) == 1
    assert UUID(program.events[0]["run"]["runId"]).version == 4
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in program.events} == {("penstock", "tested")}
    assert [event["eventTime"] for event in program.events[:2]] == [
        "2023-11-14T22:13:20.000+00:00",
        "2023-11-14T22:13:21.000+00:00",
    ]


def test_counts_are_those_since_the_event_before() -> None:
    program = Program(interval=60)
    program.start()
    for number in range(62):
        program.batch({0: number, 1: 1}, rows=10, bytes=100, files=1)
    program.listener.close()
    first, second = "penstock tested.Receiver-0", "penstock tested.Receiver-1"
    assert [rows(event, "inputs") for event in program.events] == [
        {first: None, second: None},
        {first: 0, second: 1},
        {first: sum(range(1, 61)), second: 60},
        {first: 61, second: 1},
    ]
    output = "penstock tested.foreachRDD at app.py:7"
    assert [rows(event, "outputs") for event in program.events] == [{}, {output: 10}, {output: 600}, {output: 10}]
    facet = program.events[2]["outputs"][0]["outputFacets"]["outputStatistics"]
    assert (facet["size"], facet["fileCount"]) == (6000, 60)


def test_output_without_metadata_is_named_and_has_no_counts() -> None:
    program = Program()
    program.start()
    program.batch({0: 1}, rows=True, bytes="many")
    assert rows(program.events[1], "outputs") == {"penstock tested.foreachRDD at app.py:7": None}
    assert "outputFacets" not in program.events[1]["outputs"][0]


def test_datasets_have_the_configured_identities() -> None:
    context = Context({f"{PREFIX}datasets": "Receiver-0=kafka://broker:9092/orders, foreachRDD at app.py:7=s3://b/t/x"})
    program = Program(datasets=context.options(PREFIX, OpenLineageOptions).datasets, namespace="shop")
    program.start()
    program.batch({0: 1})
    assert set(rows(program.events[1], "inputs")) == {"kafka://broker:9092 orders", "shop tested.Receiver-1"}
    assert set(rows(program.events[1], "outputs")) == {"s3://b t/x"}
    program.batch({0: 1}, after_s=60, dataset="sqlite:/shop.db.counts")
    assert set(rows(program.events[2], "outputs")) == {"s3://b t/x"}


def test_an_output_may_name_its_dataset_itself(caplog: pytest.LogCaptureFixture) -> None:
    program = Program()
    program.start()
    program.batch({0: 1}, dataset="postgres://db:5432/shop.public.counts", rows=3)
    assert rows(program.events[1], "outputs") == {"postgres://db:5432 shop.public.counts": 3}
    program.batch({0: 1}, after_s=60, dataset="postgres://me:hunter22@db/shop.counts")
    assert set(rows(program.events[2], "outputs")) == {"penstock tested.foreachRDD at app.py:7"}
    assert "dataset of output not valid" in caplog.text
    assert "hunter22" not in caplog.text


def test_a_run_whose_last_batch_failed_has_failed() -> None:
    program = Program()
    program.start()
    program.batch({0: 1}, failure="Traceback:\n  file\nValueError: password is hunter22, caf\udce9")
    program.listener.close()
    facet = program.events[-1]["run"]["facets"]["errorMessage"]
    assert program.types == ["START", "RUNNING", "FAIL"]
    assert (facet["message"], facet["programmingLanguage"]) == ("ValueError: password is ***, caf\ufffd", "PYTHON")
    assert facet["stackTrace"].startswith("Traceback:")
    assert "hunter22" not in json.dumps(program.events)


def test_a_failure_that_later_batches_do_not_have_does_not_fail_the_run() -> None:
    program = Program()
    program.start()
    program.batch({0: 1}, failure="ValueError: bad")
    program.batch({0: 1})
    program.listener.close()
    assert program.types[-1] == "COMPLETE"
    assert "errorMessage" not in program.events[-1]["run"]["facets"]


def test_a_long_traceback_loses_its_beginning() -> None:
    program = Program()
    program.start()
    program.batch({}, failure="x" * 50_000 + "\nValueError: bad")
    program.listener.close()
    assert len(program.events[-1]["run"]["facets"]["errorMessage"]["stackTrace"]) == 10_000


def test_a_program_that_did_not_start_has_no_run() -> None:
    program = Program()
    program.listener.close()
    assert program.events == []


def test_the_schema_refuses_an_event_that_lacks_a_part() -> None:
    program = Program()
    program.start()
    (event,) = program.events
    for path in ("run", "job", "eventTime"):
        with pytest.raises(jsonschema.ValidationError):
            check({key: value for key, value in event.items() if key != path})
    event["job"]["facets"]["jobType"] = {**event["job"]["facets"]["jobType"], "processingType": 1}
    with pytest.raises(jsonschema.ValidationError):
        check(event)


def test_events_are_appended_to_a_file_that_others_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lineage.jsonl"
    for _ in range(2):
        context = Context({f"{PREFIX}file": str(path)})
        (listener,) = listeners_of(context)
        listener.onStreamingStarted(StreamingStarted(T))
        context.stop()
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [checked(event)["eventType"] for event in events] == ["START", "COMPLETE"] * 2
    assert len({event["run"]["runId"] for event in events}) == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_destination_nothing_listens() -> None:
    assert listeners_of(Context()) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"url": "ftp://host"}, "must be http"),
        ({"url": "http://"}, "must be http"),
        ({"url": "http://user:hunter22@host"}, "must not contain a user or password"),
        ({"url": "http://host", "file": "/tmp/x"}, "set url or file"),
        ({"url": "http://host", "datasets": "orders"}, "name=URI"),
        ({"url": "http://host", "datasets": "orders=kafka"}, "not a URI"),
        ({"url": "http://host", "datasets": "orders=kafka://me:hunter22@b/orders"}, "must not contain a user"),
        ({"url": "http://host", "namespace": ""}, "namespace"),
        ({"url": "http://host", "interval": "0"}, "interval"),
        ({"urll": "http://host"}, "url"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as raised:
        listeners_of(Context({f"{PREFIX}{name}": value for name, value in options.items()}))
    assert "hunter22" not in str(raised.value)


def test_readme_lists_every_option() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for option in Option.of(OpenLineageOptions):
        assert f"| `{PREFIX}{option.name}` | `{option.default}` | {option.help} |" in text
