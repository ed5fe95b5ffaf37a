"""``ReceiverHarness``: a receiver as on an executor, without Spark."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock import Receiver, ThreadReceiver
from penstock.errors import ConfigurationError
from penstock.runtime.clock import ManualClock
from penstock.testing import ReceiverHarness


class Countdown(ThreadReceiver[int]):
    def __init__(self, start: int) -> None:
        self.start = start

    def receive(self) -> None:
        for number in range(self.start, 0, -1):
            self.store(number)


class Fails(ThreadReceiver[int]):
    def receive(self) -> None:
        raise ConnectionRefusedError("nobody listens")


class Groups(Receiver[str]):
    def onStart(self) -> None:
        self.store_all(["a", "b"])
        self.store_all(["c"])


def test_records_come_in_order() -> None:
    with ReceiverHarness(Countdown(3)) as harness:
        harness.until_records([3, 2, 1])
    assert (harness.count, harness.errors, harness.ends) == (3, [], ["the test is over"])


def test_each_group_is_a_block() -> None:
    with ReceiverHarness(Groups()) as harness:
        assert [list(block.records()) for block in harness.blocks] == [["a", "b"], ["c"]]


def test_other_records_are_told() -> None:
    with ReceiverHarness(Countdown(2)) as harness, pytest.raises(AssertionError, match=r"expected \[2, 2\].*\[2, 1\]"):
        harness.until_records([2, 2])


def test_what_does_not_come_is_told_with_what_there_is() -> None:
    with ReceiverHarness(Fails()) as harness:
        harness.until_error("nobody listens")
        with pytest.raises(TimeoutError, match=r"not within 0.05 s: 0 records, errors \['.*nobody listens"):
            harness.until(lambda: harness.count, 0.05)


def test_the_rate_holds_under_a_manual_clock() -> None:
    clock = ManualClock()
    with ReceiverHarness(Countdown(100), {"spark.streaming.receiver.maxRate": "100"}, clock) as harness:
        # One step behind the other, until all is there: what the limit allows by now bounds what is there by now.
        while harness.count < 100:
            clock.advance(20)
            assert harness.count <= clock.now_ms() / 10 + 2
            time.sleep(0.001)
        assert clock.now_ms() >= 970
        harness.update_rate(5)
        assert harness.receiver.rate_limit == 5


def test_the_documentations_example_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "writing-a-receiver.md"
    countdown, test, _plugin = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(countdown + test, names)
    names["test_it_counts_down"]()


def test_a_receiver_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = threading.Event()

    class Hangs(ThreadReceiver[Any]):
        def receive(self) -> None:
            freed.wait()

    monkeypatch.setattr("penstock.testing.receiver_harness._STOP_S", 0)
    harness = ReceiverHarness(Hangs())
    harness.start()
    freed.set()
    with pytest.raises(TimeoutError, match="Hangs did not end within 0 s of its stop: onStop is to wake"):
        harness.stop()


def test_configuration_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="blockInterval"):
        ReceiverHarness(Countdown(1), {"spark.streaming.blockInterval": "soon"})
