"""Fixtures: the runs of a program, and its output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from tests.helpers.runs import Output, Runs


@pytest.fixture
def runs(sc: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    from pyspark import SparkConf

    shared = sc.getConf().getAll()

    def configure(**conf: str) -> None:
        own = SparkConf(loadDefaults=False).setAll(
            [*shared, *((f"spark.penstock.{k.replace('_', '.')}", v) for k, v in conf.items())]
        )
        monkeypatch.setattr(sc, "getConf", lambda: own)

    made = Runs(sc, tmp_path, configure)
    yield made
    made.stop()


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "output")
