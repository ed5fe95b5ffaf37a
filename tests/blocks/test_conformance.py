"""The core's block handlers, alone and behind a plugin that observes, pass the conformance checks of block stores."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

from tests.mutants.block_store import ALL, Observes, make_logged

from penstock.blocks.received_block_handler import LocalBlockHandler, WriteAheadLogBlockHandler
from penstock_testing import BlockStoreSuite, Capabilities, run_checks


class TestLocalBlockHandler(BlockStoreSuite):
    capabilities = Capabilities(located=True)

    def make(self, folder: Path) -> LocalBlockHandler:
        return LocalBlockHandler(folder)


class TestReceiverWriteAheadLog(BlockStoreSuite):
    capabilities = Capabilities(durable=True, verified=True, located=True)

    def make(self, folder: Path) -> WriteAheadLogBlockHandler:
        return WriteAheadLogBlockHandler(str(folder / "0"), "fsync")


class TestPluginThatObserves(BlockStoreSuite):
    capabilities = Capabilities(located=True)
    make = Observes


def test_trace_functions_are_as_they_were() -> None:
    # Coverage traces each thread with an object of its own. Threads that share one damage the memory of Python.
    def trace(_frame: FrameType, _event: str, _argument: object) -> None:
        """Trace nothing."""

    def begin(_frame: FrameType, _event: str, _argument: object) -> None:
        """Give a new thread its own trace function, as coverage does."""
        sys.settrace(trace)

    before = threading.gettrace()
    threading.settrace(begin)
    try:
        report = run_checks("block-store", make_logged, only=["BS-03"], capabilities=ALL)
        assert threading.gettrace() is begin
    finally:
        threading.settrace(before)
    assert [each.outcome for each in report.results] == ["passed"]
