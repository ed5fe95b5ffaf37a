"""``BlockReporter``: blocks that are stored during a report are reported together after it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import wait_for

from penstock import StoredBlock
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.conf import Settings
from penstock.errors import StoreError
from penstock.receive.block_pusher import BlockPusher, BlockReporter
from penstock.receive.messages import AddBlocks, RegisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import ManualClock
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.receive.conftest import FakeDriver, Noting

Background = Callable[[Callable[[], Any]], "Future[Any]"]


def block(number: int) -> StoredBlock:
    return StoredBlock(f"input-0-1-{number}", 0, 1, 100, f"/blocks/{number}")


class Driver:
    """Records the reported groups; the gate holds the first one."""

    def __init__(self, gate: Gate) -> None:
        self.groups: list[list[str]] = []
        self.reply = Reply()
        self.error: Exception | None = None
        self._gate = gate

    def report(self, blocks: list[StoredBlock]) -> Reply:
        self.groups.append([each.block_id for each in blocks])
        if len(self.groups) == 1:
            self._gate()
            return Reply()
        if self.error is not None:
            raise self.error
        return self.reply


@pytest.fixture
def reported(gate: Gate) -> Driver:
    return Driver(gate)


def four(reported: Driver, gate: Gate, background: Background) -> list[Future[Any]]:
    """Report a block, which the gate holds, then three more."""
    reporter = BlockReporter(reported.report)
    first = background(lambda: reporter.report([block(0)]))
    assert gate.reached.wait(10)
    others = [background(lambda n=n: reporter.report([block(n)])) for n in (1, 2, 3)]  # type: ignore[misc]  # mypy
    wait_for(lambda: len(reporter._next.blocks) == 3, "three blocks wait for the next report")
    return [first, *others]


def test_waiting_blocks_are_reported_together(reported: Driver, gate: Gate, background: Background) -> None:
    reporting = four(reported, gate, background)
    assert len(reported.groups) == 1
    gate.open()
    assert [each.result(timeout=10) for each in reporting] == [Reply()] * 4
    assert [sorted(group) for group in reported.groups] == [["input-0-1-0"], [f"input-0-1-{n}" for n in (1, 2, 3)]]


def test_refusal_applies_to_the_whole_group(reported: Driver, gate: Gate, background: Background) -> None:
    reporting = four(reported, gate, background)
    reported.reply = Reply(accepted=False, reason="it was replaced")
    gate.open()
    first, *others = [each.result(timeout=10) for each in reporting]
    assert (first, others) == (Reply(), [reported.reply] * 3)


def test_error_applies_to_the_whole_group_and_the_next_is_reported(
    reported: Driver, gate: Gate, background: Background
) -> None:
    reporting = four(reported, gate, background)
    reported.error = StoreError("nobody answers")
    gate.open()
    assert reporting[0].result(timeout=10) == Reply()
    for each in reporting[1:]:
        with pytest.raises(StoreError, match="nobody answers"):
            each.result(timeout=10)


def test_single_reports_do_not_wait(reported: Driver, gate: Gate) -> None:
    gate.open()
    reporter = BlockReporter(reported.report)
    for number in range(3):
        reporter.report([block(number)])
    assert reported.groups == [["input-0-1-0"], ["input-0-1-1"], ["input-0-1-2"]]


def test_threads_that_store_share_reports(
    supervise: Callable[..., ReceiverSupervisor],
    receiver: Noting,
    driver: FakeDriver,
    gate: Gate,
    background: Background,
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    driver.on_message = lambda message: gate() if isinstance(message, AddBlocks) else None
    storing = [background(lambda: receiver.store_all(["a"]))]
    assert gate.reached.wait(10)
    storing += [background(lambda: receiver.store_all(["b"])) for _ in range(9)]
    reporter = supervisor._writer._pusher._reporter
    wait_for(lambda: len(reporter._next.blocks) == 9, "nine blocks wait for the next report")
    gate.open()
    for each in storing:
        each.result(timeout=10)
    assert [len(message.blocks) for message in driver.log.of(AddBlocks)] == [1, 9]
    assert len({each.block_id for each in driver.blocks}) == 10


class Refusing:
    """A driver that accepts no block."""

    def ask(self, _message: object, _reply_kind: type) -> Any:
        return Reply(accepted=False, reason="it was replaced")


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "block input-0-1-0"), (2, "block input-0-1-0 and 1 other"), (3, "block input-0-1-0 and 2 others")],
)
def test_message_names_one_block_of_a_group(tmp_path: Path, count: int, named: str) -> None:
    launch, store = RegisterReceiver(0, 1, "Silent", 1), LocalBlockHandler(tmp_path)
    pusher = BlockPusher(launch, Settings.parse({}), Refusing(), store, ManualClock(0), threading.Event())
    with pytest.raises(StoreError) as caught:
        pusher.report([block(number) for number in range(count)])
    assert str(caught.value) == f"the driver did not accept {named}: it was replaced"
