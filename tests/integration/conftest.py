"""The receivers and functions of these tests travel to Spark's workers by value: workers cannot import test modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import cloudpickle
from tests.helpers.shared_jvm import SharedJvm


@pytest.fixture(autouse=True)
def _travels_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(scope="session")
def shared_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedJvm]:
    """A JVM for programs that do not need its end."""
    jvm = SharedJvm(tmp_path_factory.mktemp("shared-jvm"))
    yield jvm
    jvm.close()
