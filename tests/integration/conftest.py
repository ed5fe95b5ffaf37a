"""The receivers and functions of these tests travel to Spark's workers by value: workers cannot import test modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import cloudpickle


@pytest.fixture(autouse=True)
def _travels_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
