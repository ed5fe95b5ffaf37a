"""The receiver ``synthetic``: how many records when; and under a real supervisor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock_synthetic import SyntheticOptions, SyntheticReceiver, synthetic_receiver
from penstock_synthetic.pool import POOL_RECORDS, SHAPES, Pool, Shape

if TYPE_CHECKING:
    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]


class Timed(SyntheticReceiver):
    """Runs in a time of its own, in which only waiting and storing take any.

    Args:
        options: of the receiver.
        until_s: when it is stopped.
        oversleeps_s: how much longer than asked each wait takes.
        stores_s: how long a store takes.
    """

    block_interval_ms = 200

    def __init__(
        self, options: SyntheticOptions, until_s: float, oversleeps_s: float = 0.0, stores_s: float = 0.0
    ) -> None:
        super().__init__(options)
        self._until_s = until_s
        self._oversleeps_s = oversleeps_s
        self._stores_s = stores_s
        self.now_s = 1000.0
        self.began_s = self.now_s
        # When it was stored, and how many there were by then.
        self.stored: list[tuple[float, int]] = [(0.0, 0)]

    def isStopped(self) -> bool:
        return self.now_s - self.began_s > self._until_s

    def wait(self, seconds: float) -> bool:
        assert seconds > 0
        self.now_s += seconds + self._oversleeps_s
        return self.isStopped()

    def store_arrow(self, batch: pa.RecordBatch | pa.Table, metadata: object = None) -> None:
        self.stored.append((self.now_s - self.began_s, self.stored[-1][1] + batch.num_rows))
        self.now_s += self._stores_s


def timed(monkeypatch: pytest.MonkeyPatch, rate: float, until_s: float = 60.0, **more: Any) -> list[tuple[float, int]]:
    receiver = Timed(SyntheticOptions(rate=rate, total=more.pop("total", 0)), until_s, **more)
    monkeypatch.setattr(synthetic_receiver, "monotonic", lambda: receiver.now_s)
    receiver.receive()
    return receiver.stored


@pytest.mark.parametrize("oversleeps_s", [0.0, 0.013, 0.3])
@pytest.mark.parametrize("rate", [0.5, 1.0, 3.3, 1000.0, 123_456.0])
def test_the_rate_is_kept_without_drift(monkeypatch: pytest.MonkeyPatch, rate: float, oversleeps_s: float) -> None:
    stored = timed(monkeypatch, rate, oversleeps_s=oversleeps_s)
    for at_s, count in stored:
        assert rate * at_s - 1 <= count <= rate * at_s + 1e-6
    latest_s, _ = stored[-1]
    assert latest_s > 60 - 1 / rate - 0.5 - oversleeps_s


def test_a_block_interval_lies_between_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s, counts = zip(*timed(monkeypatch, 1000, until_s=1.1), strict=True)
    assert times_s == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert counts == pytest.approx([0, 200, 400, 600, 800, 1000], abs=1)


def test_one_record_at_a_time_when_they_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = timed(monkeypatch, 0.5, until_s=10.0)
    assert [count for _, count in stored] == [0, 1, 2, 3, 4, 5]


def test_what_a_store_held_back_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # A store takes longer than a block interval, and holds more than one chunk.
    stored = timed(monkeypatch, 200_000, until_s=60.0, stores_s=0.3)
    latest_s, count = stored[-1]
    assert count >= 200_000 * (latest_s - 1)


def test_a_total_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(monkeypatch, 1000, total=12_345)[-1][1] == 12_345


def expected(shape: Shape, count: int, seed: int = 7) -> list[Any]:
    pool = Pool(shape, seed)
    return [pool.records[number % POOL_RECORDS] for number in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
def test_records_come_in_order_and_stop_at_the_total(launch: Launch, shape: Shape) -> None:
    launched = launch(SyntheticReceiver(SyntheticOptions(rate=0, shape=shape, total=100_000)))
    launched.until_count(100_000)
    assert launched.records == expected(shape, 100_000)
    # It idles, and is neither stopped nor restarted.
    assert launched.receiver.isStarted()
    assert (launched.errors, launched.ends) == ([], [])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_rate_does_not_change_the_records(launch: Launch, shape: Shape) -> None:
    launched = launch(SyntheticReceiver(SyntheticOptions(rate=20_000, shape=shape, seed=3)))
    launched.until_count(2000)
    records = launched.records
    assert records == expected(shape, len(records), seed=3)


def test_it_begins_anew_when_it_is_started_again(launch: Launch) -> None:
    launched = launch(SyntheticReceiver(SyntheticOptions(rate=0, total=10)))
    launched.until_count(10)
    launched.receiver.restart("because", delay_ms=0)
    launched.until_count(20)
    assert launched.records == 2 * expected("lines", 10)


@pytest.mark.parametrize("rate", [0, 1e-6, 1000])
def test_stopping_is_prompt(launch: Launch, rate: float) -> None:
    launched = launch(SyntheticReceiver(SyntheticOptions(rate=rate)))
    launched.stop()
    thread = vars(launched.receiver)["_SupervisedThread__thread"]
    assert not thread.is_alive()
