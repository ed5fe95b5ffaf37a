"""The monitor passes the conformance checks, and so does the ``store`` hook that looks for trace contexts."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path

import penstock_ui
from penstock import Block, StoredBlock, hookimpl
from penstock_testing import BlockStoreSuite
from penstock_ui.conformance import MonitorSuite
from penstock_ui.options import TRACE_LINKS


class TestMonitor(MonitorSuite):
    pass


class Linking:
    """The hook of a program that wants links."""

    @hookimpl(wrapper=True)
    def store(
        self, block: Block, configuration: Mapping[str, str]
    ) -> Generator[None, StoredBlock | None, StoredBlock | None]:
        return (yield from penstock_ui.add_trace_contexts(block, {**configuration, TRACE_LINKS: "true"}))


class TestTraceLinks(BlockStoreSuite):
    name = "ui"

    def make(self, _folder: Path) -> Linking:
        return Linking()
