"""Programs with DataFrame streams under the manual clock: one StreamingContext for many outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle
from tests.helpers.frame_programs import FRUGAL, Run, frugal_plans

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _travels_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(scope="package", autouse=True)
def session(sc: SparkContext) -> Iterator[SparkSession]:
    """The program's session: a task, a plan in stages and compiled code cost more than the rows of these tests."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    with frugal_plans(spark):
        yield spark


@pytest.fixture
def sparks_plans(session: SparkSession) -> Iterator[None]:
    """Adaptive plans and compiled code, as a program has them that sets nothing."""
    keys = FRUGAL.keys() - {"spark.sql.shuffle.partitions"}
    for key in keys:
        session.conf.unset(key)
    yield
    for key in keys:
        session.conf.set(key, FRUGAL[key])


@pytest.fixture
def run(sc: SparkContext, tmp_path: Path) -> Run:
    return Run(sc, tmp_path)
