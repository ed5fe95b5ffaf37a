"""Runs the receivers of the plugins' tests, and looks at what they leave behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock import Receiver
from penstock_testing import ManualClock, ReceiverHarness


def _open_files() -> set[str]:
    """The regular files that this process has open."""
    names = (os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir())
    return {name for name in names if os.path.isfile(name)}  # noqa: PTH113  # of the one kind


@pytest.fixture
def launch() -> Iterator[Callable[..., ReceiverHarness]]:
    """Run a receiver; it is stopped when the test is over, and must not leave a thread or an open file behind."""
    threads, files = set(threading.enumerate()), _open_files()

    with ExitStack() as running:

        def launch(
            receiver: Receiver[Any],
            clock: ManualClock | None = None,
            settings: Mapping[str, str] | None = None,
            *,
            pickled: bool = True,
        ) -> ReceiverHarness:
            return running.enter_context(ReceiverHarness(receiver, settings, clock, pickled=pickled))

        yield launch
    left = set(threading.enumerate()) - threads
    for thread in left:
        thread.join(20)
    assert not [thread for thread in left if thread.is_alive()]
    assert _open_files() <= files
