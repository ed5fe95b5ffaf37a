"""Reports of ``BlockPusher``: blocks that are stored during a report are reported together after it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock import StoredBlock
from penstock.blocks import arrow_form
from penstock.conf import Settings
from penstock.errors import StoreError
from penstock.receive.block_pusher import BlockPusher, PushedBlock
from penstock.receive.lifecycle_events import BlocksAccepted, Event
from penstock.receive.messages import RegisterReceiver
from penstock.wire.json_codec import Reply
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.receive.conftest import FakeStore

Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Reports:
    """Reported groups of a pusher; the gate holds the first one."""

    def __init__(self, gate: Gate, store: FakeStore) -> None:
        self.groups: list[list[str]] = []
        self.reply = Reply()
        self.error: Exception | None = None
        self.events: list[Event] = []
        self._gate = gate
        settings = Settings.parse({"spark.penstock.receiver.storeRetries": "0"})
        launch = RegisterReceiver(3, 1, "Silent", 1)
        self._pusher = BlockPusher(launch, settings, store, self._report, ManualClock(0), self.events.append)

    def _report(self, blocks: list[StoredBlock]) -> Reply:
        self.groups.append([block.block_id for block in blocks])
        if len(self.groups) == 1:
            self._gate()
            return Reply()
        if self.error is not None:
            raise self.error
        return self.reply

    def push(self, number: int) -> PushedBlock:
        return self._pusher.push_table(arrow_form.encode([number]), 1, None, 0)


@pytest.fixture
def reports(gate: Gate, store: FakeStore) -> Reports:
    return Reports(gate, store)


def four(reports: Reports, gate: Gate, background: Background) -> list[Future[Any]]:
    """Report a block, which the gate holds, then three more."""
    first = reports.push(0)
    reporting = [background(first.await_accepted)]
    assert gate.reached.wait(10)
    return reporting + [background(pushed.await_accepted) for pushed in [reports.push(n) for n in (1, 2, 3)]]


def test_waiting_blocks_are_reported_together(reports: Reports, gate: Gate, background: Background) -> None:
    reporting = four(reports, gate, background)
    assert len(reports.groups) == 1
    gate.open()
    for report in reporting:
        report.result(timeout=10)
    assert reports.groups == [["input-3-1-0"], [f"input-3-1-{n}" for n in (1, 2, 3)]]
    assert reports.events == [BlocksAccepted(1), BlocksAccepted(3)]


def test_refusal_applies_to_the_whole_group_and_its_blocks_are_deleted(
    reports: Reports, gate: Gate, background: Background, store: FakeStore
) -> None:
    first, *others = four(reports, gate, background)
    reports.reply = Reply(accepted=False, reason="it was replaced")
    gate.open()
    first.result(timeout=10)
    for report in others:
        with pytest.raises(StoreError, match="it was replaced"):
            report.result(timeout=10)
    assert store.discarded == [f"input-3-1-{n}" for n in (1, 2, 3)]
    assert reports.events == [BlocksAccepted(1)]


def test_error_applies_to_the_whole_group_and_the_next_is_reported(
    reports: Reports, gate: Gate, background: Background
) -> None:
    first, *others = four(reports, gate, background)
    reports.error = OSError("nobody answers")
    gate.open()
    first.result(timeout=10)
    for report in others:
        with pytest.raises(StoreError, match="nobody answers"):
            report.result(timeout=10)
    reports.error = None
    reports.push(4).await_accepted()


def test_single_reports_do_not_wait(reports: Reports, gate: Gate) -> None:
    gate.open()
    for number in range(3):
        reports.push(number).await_accepted()
    assert reports.groups == [["input-3-1-0"], ["input-3-1-1"], ["input-3-1-2"]]


def test_withdrawn_block_is_deleted_and_not_reported(reports: Reports, gate: Gate, store: FakeStore) -> None:
    gate.open()
    first, second = reports.push(0), reports.push(1)
    assert first.withdraw()
    second.await_accepted()
    assert (reports.groups, store.discarded) == ([["input-3-1-1"]], ["input-3-1-0"])
    assert not second.withdraw()


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "block input-3-1-1"), (2, "block input-3-1-1 and 1 other"), (3, "block input-3-1-1 and 2 others")],
)
def test_message_names_one_block_of_a_group(reports: Reports, gate: Gate, count: int, named: str) -> None:
    gate.open()
    reports.push(0).await_accepted()
    reports.reply = Reply(accepted=False, reason="it was replaced")
    pushed = [reports.push(number) for number in range(count)]
    with pytest.raises(StoreError) as caught:
        pushed[-1].await_accepted()
    assert str(caught.value) == f"the driver did not accept {named}: it was replaced"
