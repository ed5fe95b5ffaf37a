"""Synthetic receivers never fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock_testing import ReceiverHarness


@pytest.fixture
def launch(launch: Callable[..., ReceiverHarness]) -> Iterator[Callable[..., ReceiverHarness]]:
    """Run a receiver; in the end it must have reported nothing."""
    launched: list[ReceiverHarness] = []

    def run(*args: Any, **options: Any) -> ReceiverHarness:
        launched.append(launch(*args, **options))
        return launched[-1]

    yield run
    assert [harness.errors for harness in launched] == [[] for _ in launched]
