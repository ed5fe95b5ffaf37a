"""Operators under the manual clock, on the one SparkContext of the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import cloudpickle
from tests.operators.conftest import harness, partitions, run_all, run_outputs  # noqa: F401  # fixtures


@pytest.fixture(scope="module", autouse=True)
def _travels_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
