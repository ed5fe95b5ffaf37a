"""The core's block handlers, alone and behind a plugin that observes, pass the conformance checks of block stores."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.block_store import Observes

from penstock.blocks.received_block_handler import LocalBlockHandler, WriteAheadLogBlockHandler
from penstock_testing import BlockStoreSuite


class TestLocalBlockHandler(BlockStoreSuite):
    def make(self, folder: Path) -> LocalBlockHandler:
        return LocalBlockHandler(folder)


class TestReceiverWriteAheadLog(BlockStoreSuite):
    def make(self, folder: Path) -> WriteAheadLogBlockHandler:
        return WriteAheadLogBlockHandler(str(folder / "0"), "fsync")


class TestPluginThatObserves(BlockStoreSuite):
    make = Observes
