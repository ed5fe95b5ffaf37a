"""``BlockPusher``: stored blocks reach the driver in order; those stored during a report are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from tests.helpers import Gate, await_blocked, wait_for

from penstock.blocks import arrow_form
from penstock.conf import Settings
from penstock.errors import StoreError
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.messages import AddBlocks, RegisterReceiver
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.running_receiver import BlocksAccepted, Event, StopRequested, Tick
from penstock.wire.json_codec import Reply
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.receive.conftest import FakeStore

Background = Callable[[Callable[[], Any]], "Future[Any]"]
R = TypeVar("R")
INTERVAL_MS = 100


class Reports:
    """A pusher and the groups of blocks that it reports; the gate holds the first one."""

    def __init__(self, gate: Gate, store: FakeStore, clock: ManualClock) -> None:
        self.groups: list[list[str]] = []
        self.reply = Reply()
        self.error: Exception | None = None
        self.events: list[Event] = []
        #: Called with each later report.
        self.on_report: Callable[[], object] = lambda: None
        self._gate = gate
        self._clock = clock
        self._store = store
        settings = Settings.parse(
            {
                "spark.penstock.receiver.storeRetries": "0",
                "spark.streaming.blockInterval": f"{INTERVAL_MS}ms",
            }
        )
        launch, limiter = RegisterReceiver(3, 1, "Silent", 1), RateLimiter(clock, None, 0)
        self.pusher = BlockPusher(launch, settings, store, self, limiter, self.take)
        self.generator = self.pusher.generator
        self.pusher.start()

    def take(self, event: Event) -> None:
        if not isinstance(event, Tick):
            self.events.append(event)

    def ask(self, message: object, reply_kind: type[R]) -> R:
        assert isinstance(message, AddBlocks)
        self.groups.append([block.block_id for block in message.blocks])
        reply = self.reply
        if len(self.groups) == 1:
            self._gate()
            reply = Reply()
        else:
            self.on_report()
            if self.error is not None:
                raise self.error
        assert isinstance(reply, reply_kind)
        return reply

    def push(self, number: int) -> None:
        """Store a number and return when it is accepted."""
        self.pusher.push_and_await(arrow_form.encode([number]), 1, None, 0)

    def generate(self, number: int) -> None:
        """Buffer a number, a block of its own, and return when it is stored."""
        self.generator.add_data(number)
        self._clock.await_waiters()
        self._clock.advance(INTERVAL_MS)
        wait_for(lambda: number in self.stored, "the block is stored")

    @property
    def stored(self) -> list[Any]:
        return [record for block in list(self._store.kept.values()) for record in block.records()]

    @property
    def failures(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, StopRequested)]

    @property
    def accepted(self) -> int:
        return sum(event.records for event in self.events if isinstance(event, BlocksAccepted))


@pytest.fixture
def reports(gate: Gate, store: FakeStore, clock: ManualClock) -> Iterator[Reports]:
    reports = Reports(gate, store, clock)
    yield reports
    gate.open()
    reports.pusher.stop()


def report_blocks(reports: Reports, gate: Gate, background: Background, others: int = 3) -> list[Future[Any]]:
    """Report a block, which the gate holds, then others, which wait."""
    reporting = []
    for number in range(others + 1):
        reporting.append(background(partial(reports.push, number)))
        await_blocked(BlockPusher.push_and_await, number + 1)
        assert gate.reached.wait(10)
    return reporting


def test_waiting_blocks_are_reported_together(reports: Reports, gate: Gate, background: Background) -> None:
    reporting = report_blocks(reports, gate, background)
    assert len(reports.groups) == 1
    gate.open()
    for report in reporting:
        report.result(timeout=10)
    assert reports.groups == [["input-3-1-0"], [f"input-3-1-{n}" for n in (1, 2, 3)]]
    assert reports.events == [BlocksAccepted(1), BlocksAccepted(3)]


def test_refusal_applies_to_the_whole_group_and_its_blocks_are_deleted(
    reports: Reports, gate: Gate, background: Background, store: FakeStore
) -> None:
    first, *others = report_blocks(reports, gate, background)
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
    first, *others = report_blocks(reports, gate, background)
    reports.error = OSError("nobody answers")
    gate.open()
    first.result(timeout=10)
    for report in others:
        with pytest.raises(StoreError, match="nobody answers"):
            report.result(timeout=10)
    reports.error = None
    reports.push(4)


def test_single_reports_do_not_wait(reports: Reports, gate: Gate) -> None:
    gate.open()
    for number in range(3):
        reports.push(number)
    assert reports.groups == [["input-3-1-0"], ["input-3-1-1"], ["input-3-1-2"]]


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "block input-3-1-1"), (2, "block input-3-1-1 and 1 other"), (3, "block input-3-1-1 and 2 others")],
)
def test_message_names_one_block_of_a_group(
    reports: Reports, gate: Gate, background: Background, count: int, named: str
) -> None:
    reporting = report_blocks(reports, gate, background, others=count)
    reports.reply = Reply(accepted=False, reason="it was replaced")
    gate.open()
    with pytest.raises(StoreError) as caught:
        reporting[-1].result(timeout=10)
    assert str(caught.value) == f"the driver did not accept {named}: it was replaced"


# -- generated blocks --


@pytest.fixture
def held(reports: Reports, gate: Gate) -> Reports:
    """A pusher whose first block, of the number 0, the gate holds on its way to the driver."""
    reports.generate(0)
    assert gate.reached.wait(10)
    return reports


def test_blocks_are_stored_while_another_is_reported(held: Reports, gate: Gate) -> None:
    for number in (1, 2, 3):
        held.generate(number)
    assert held.accepted == 0
    gate.open()
    held.pusher.stop()
    assert (held.accepted, held.stored) == (4, [0, 1, 2, 3])
    assert [len(group) for group in held.groups] == [1, 3]


def test_blocks_that_were_stored_before_a_failed_one_are_accepted(held: Reports, gate: Gate, store: FakeStore) -> None:
    held.generate(1)
    store.failures = 1
    outcomes: list[str] = []
    for number in (2, 3):
        held.generator.add_data(number, lambda error: outcomes.append(str(error)))
    gate.open()
    held.pusher.stop()
    assert (held.accepted, held.stored) == (2, [0, 1])
    assert len(outcomes) == 2
    assert all("Input/output error" in outcome for outcome in outcomes)
    (failure,) = held.failures
    assert failure.startswith("Error storing a block: ")
    assert "Input/output error" in failure
    assert held.generator.dropped_records == 2


def test_failed_store_is_reported_once_and_later_records_are_dropped_and_counted(
    reports: Reports, gate: Gate, store: FakeStore, clock: ManualClock
) -> None:
    gate.open()
    store.failures = 2
    for number in range(3):
        reports.generator.add_data(number)
    clock.await_waiters()
    clock.advance(INTERVAL_MS)
    for number in range(3, 10):
        reports.generator.add_data(number)
        clock.advance(INTERVAL_MS)
    reports.pusher.stop()
    assert (len(reports.failures), store.tries, reports.stored) == (1, 1, [])
    assert reports.generator.dropped_records == 10


def test_failed_report_drops_its_block_and_those_stored_meanwhile(held: Reports, gate: Gate, store: FakeStore) -> None:
    outcomes: list[BaseException | None] = []
    held.generate(1)
    held.error = OSError("no driver")
    held.on_report = second = Gate()
    gate.open()
    assert second.reached.wait(10)
    held.generate(2)
    second.open()
    wait_for(lambda: bool(held.failures), "the report has failed")
    held.generator.add_data(3, outcomes.append)
    held.pusher.stop()
    # The second block is not reported but deleted, and the third not stored at all.
    assert held.groups == [["input-3-1-0"], ["input-3-1-1"]]
    assert (held.stored, store.discarded) == ([0, 1], ["input-3-1-2"])
    (failure,) = held.failures
    assert "no driver" in failure
    assert [isinstance(outcome, StoreError) for outcome in outcomes] == [True]
    assert held.generator.dropped_records == 3
    held.error = None


def test_lost_generated_block_does_not_affect_store_all(held: Reports, gate: Gate) -> None:
    held.generate(1)
    held.error = OSError("no driver")
    gate.open()
    wait_for(lambda: bool(held.failures), "the report has failed")
    held.error = None
    held.push(2)
    assert held.groups[-1] == ["input-3-1-2"]
