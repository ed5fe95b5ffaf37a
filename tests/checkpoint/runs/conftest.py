"""Fixtures: the runs of a program, and its output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from tests.helpers.own_conf import own_conf
from tests.helpers.runs import Output, Runs

from penstock.spark.spark_conf import entries_of


@pytest.fixture
def runs(sc: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    shared = entries_of(sc)

    def configure(**conf: str) -> None:
        # A key in full, or without its prefix and with underscores for dots.
        more = ((k if "." in k else f"spark.penstock.{k.replace('_', '.')}", v) for k, v in conf.items())
        monkeypatch.setattr(sc, "_conf", own_conf([*shared.items(), *more]))

    made = Runs(sc, tmp_path, configure)
    yield made
    made.stop()


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "output")
