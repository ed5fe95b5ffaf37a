"""Fixtures of tests of what tasks run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local times are not those of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()
