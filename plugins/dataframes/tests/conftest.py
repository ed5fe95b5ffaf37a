"""Fixtures of tests without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyspark.shuffle
import pytest
from tests.helpers.fake_blocks import lines, received  # noqa: F401  # fixtures
from tests.helpers.fake_graph import FakeContext


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> FakeContext:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # PySpark's hash of keys asks for it
    monkeypatch.setattr(pyspark.shuffle, "get_used_memory", lambda: 100)  # PySpark's leaves a file open
    return FakeContext()


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local times are not those of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


class Frame:
    """Stands for a DataFrame."""
