"""Fixtures of every test, of the core and of the plugins."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from penstock.testing import throttle


@pytest.fixture(scope="session", autouse=True)
def _no_fsync() -> Iterator[None]:
    """Nothing waits for the disk: fsync matters only after a power failure. Tests of fsync replace it themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _no_throttled_log_events() -> None:
    """What an earlier test logged suppresses nothing in this one."""
    throttle.reset()
