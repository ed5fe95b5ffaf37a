"""The lineage of a program that runs on Spark, in the file that the events are written to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import wait_for

from penstock import OutputMetadata, StreamingContext, ThreadReceiver

pytestmark = pytest.mark.spark


class Ten(ThreadReceiver[int]):
    """Stores ten records."""

    def receive(self) -> None:
        self.store_all(range(10))


def write(rdd: Any) -> OutputMetadata:
    return OutputMetadata(dataset="file:/tables/numbers", rows=rdd.count())


def test_run_is_reported_with_its_inputs_and_outputs(make_ssc: Callable[..., StreamingContext], tmp_path: Path) -> None:
    path = tmp_path / "lineage.jsonl"
    conf = {"file": str(path), "interval": "100ms", "datasets": "numbers=kafka://broker:9092/numbers"}
    ssc = make_ssc(0.2, {f"spark.penstock.openlineage.{name}": value for name, value in conf.items()})
    ssc.receiverStream(Ten()).setName("numbers").foreachRDD(write)
    ssc.start()

    def events() -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def read() -> int:
        facets = (event["inputs"][0].get("inputFacets") for event in events())
        return sum(each["inputStatistics"]["rowCount"] for each in facets if each)

    wait_for(lambda: read() == 10, "the batch with the records")
    ssc.stop(stopSparkContext=False)
    first, *others, last = events()
    assert (first["eventType"], last["eventType"]) == ("START", "COMPLETE")
    assert {event["eventType"] for event in others} == {"RUNNING"}
    assert [(each["namespace"], each["name"]) for each in first["inputs"]] == [("kafka://broker:9092", "numbers")]
    assert [(each["namespace"], each["name"]) for each in last["outputs"]] == [("file", "/tables/numbers")]
