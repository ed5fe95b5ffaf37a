"""Fixtures of every test, of the core and of the plugins."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from penstock.testing import throttle

if "coverage" in sys.modules:
    from tests.helpers.measured import trace_flight_threads

    trace_flight_threads()

# A shell's background job ignores Ctrl-C, and the programs that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exclude from garbage collection what the imports and the collected tests hold: to visit it takes 0.3 s."""
    gc.collect()
    gc.freeze()


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
