"""``ReceiverHarness``: a receiver as on an executor, without Spark."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import advance_until

from penstock import Receiver, ReceiverHost, ThreadReceiver
from penstock.errors import ConfigurationError, StoreError
from penstock_testing import ManualClock, ReceiverHarness


class Countdown(ThreadReceiver[int]):
    def __init__(self, start: int) -> None:
        self.start = start

    def receive(self) -> None:
        for number in range(self.start, 0, -1):
            self.store(number)


class Fails(ThreadReceiver[int]):
    def receive(self) -> None:
        raise ConnectionRefusedError("nobody listens")


class NeverStarts(Receiver[str]):
    def onStart(self) -> None:
        raise OSError("no broker")


class Groups(Receiver[str]):
    def onStart(self) -> None:
        self.store_all(["a", "b"])
        self.store_all(["c"])


def test_records_are_in_order() -> None:
    with ReceiverHarness(Countdown(3)) as harness:
        harness.until_records([3, 2, 1])
    assert (harness.count, harness.errors, harness.ends) == (3, [], ["the test is over"])


def test_each_store_all_is_a_block() -> None:
    with ReceiverHarness(Groups()) as harness:
        assert [list(block.records()) for block in harness.blocks] == [["a", "b"], ["c"]]


def test_other_records_than_expected_fail_the_test() -> None:
    with ReceiverHarness(Countdown(2)) as harness, pytest.raises(AssertionError, match=r"expected \[2, 2\].*\[2, 1\]"):
        harness.until_records([2, 2])


def test_timeout_names_records_and_errors_so_far() -> None:
    with ReceiverHarness(Fails()) as harness:
        harness.until_error("nobody listens")
        with pytest.raises(TimeoutError, match=r"not within 0.05 s: 0 records, errors \['.*nobody listens"):
            harness.until(lambda: harness.count, 0.05)


def test_rate_limit_holds_under_a_manual_clock() -> None:
    clock = ManualClock()
    with ReceiverHarness(Countdown(100), {"spark.streaming.receiver.maxRate": "100"}, clock) as harness:
        # Until all records are stored, each step stores at most what the limit allows by then.
        def all_stored() -> bool:
            assert harness.count <= clock.now_ms() / 10 + 2
            return harness.count == 100

        advance_until(clock, all_stored, "all records are stored", 20)
        assert clock.now_ms() >= 970
        harness.update_rate(5)
        assert harness.receiver.rate_limit == 5


class Program:
    """A StreamingContext as far as the documentation's programs need one."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def receiverStream(self, receiver: Any, **_options: object) -> str:
        self.received.append(receiver)
        return "stream"

    def union(self, *streams: str) -> int:
        return len(streams)


def run_the_page() -> dict[str, Any]:
    """Execute all Python of the page, in order; return its names."""
    page = Path(__file__).parents[3] / "docs" / "writing-a-receiver.md"
    names: dict[str, Any] = {"ssc": Program(), "rows": [], "ReceiverHost": ReceiverHost}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
        # Ends at the receiver's end otherwise, which does not come.
        exec(
            compile(
                block.replace("host.await_termination(60)", "host.await_termination(0.2)"), f"block {number}", "exec"
            ),
            names,
        )
    return names


def test_examples_of_the_documentation_run(caplog: pytest.LogCaptureFixture) -> None:
    names = run_the_page()
    names["test_it_counts_down"]()
    assert names["rows"][0] == 100
    assert names["readings"] == 3
    *parts, ticker = names["ssc"].received
    with ReceiverHarness(parts[2]) as harness:
        harness.until_records([2])
    assert ticker == "ticker"

    class Client:
        def __init__(self, on_message: Any) -> None:
            on_message("a")
            on_message("b")

        def close(self) -> None:
            """Nothing to close."""

    with ReceiverHarness(names["Subscription"](Client)) as harness:
        harness.until_records(["a", "b"])
    options = names["FeedOptions"](password="hunter2")
    assert (options.secret(), "hunter2" in repr(options)) == ("hunter2", False)

    class Messages(list[bytes]):
        def close(self) -> None:
            raise OSError("not open")

    received = Messages([b"a\nb\n", b"\xff\n" + b"x" * 1001 + b"\n"])
    with ReceiverHarness(names["MessageLines"](received)) as harness:
        harness.until_records(["a", "b", "\ufffd"])
        harness.until_error("lines longer than 1000 bytes, dropped: 1 (1 in total), lines that are not UTF-8")
    assert "messages not closed" in caplog.text


def test_receiver_that_exceeds_the_stop_deadline_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(Receiver[Any]):
        def onStart(self) -> None:
            """Nothing to start."""

        def onStop(self) -> None:
            threading.Event().wait(0.1)

    monkeypatch.setattr("penstock_testing.receiver_harness._STOP_S", 0.05)
    harness = ReceiverHarness(Hangs())
    harness.start()
    with pytest.raises(TimeoutError, match=r"Hangs did not end within 0.05 s of its stop: onStop is to wake"):
        harness.stop()


def test_receiver_that_ends_within_the_stop_deadline_passes() -> None:
    harness = ReceiverHarness(Groups())
    harness.start()
    harness.stop()


def test_error_of_onStart_fails_the_with_block() -> None:
    with pytest.raises(OSError, match="no broker"), ReceiverHarness(NeverStarts()):
        pytest.fail("the receiver has not started")


def test_error_of_onStart_is_in_errors() -> None:
    harness = ReceiverHarness(NeverStarts())
    harness.start()
    assert harness.errors == ["Error starting receiver 0: OSError: no broker"]
    assert "OSError: no broker" in harness.tracebacks[0]


@pytest.mark.parametrize(
    "wait",
    [
        lambda harness: harness.until_count(1),
        lambda harness: harness.until_records(["a"]),
        lambda harness: harness.until_error("something else"),
        lambda harness: harness.until(lambda: False, 1000),
    ],
    ids=["until_count", "until_records", "until_error", "until"],
)
def test_wait_ends_with_the_receiver(wait: Callable[[ReceiverHarness], None]) -> None:
    harness = ReceiverHarness(NeverStarts())
    harness.start()
    with pytest.raises(TimeoutError, match=r"has ended: 0 records.*no broker"):
        wait(harness)


def test_receiver_that_cannot_be_pickled_is_refused() -> None:
    class Connects(Receiver[str]):
        def __init__(self) -> None:
            self.client = threading.Lock()

    expected = (
        r"^receiver Connects cannot be sent to an executor: its attribute 'client' \(lock\) cannot be pickled: .*\. "
        r"Create it in onStart, not in __init__\.$"
    )
    with pytest.raises(ConfigurationError, match=expected):
        ReceiverHarness(Connects())
    ReceiverHarness(Connects(), pickled=False)


def test_receiver_that_cannot_be_unpickled_is_refused() -> None:
    class Loses(Receiver[str]):
        host = "there"

        def __getstate__(self) -> object:
            return {"port": 80}

        def __setstate__(self, _state: object) -> None:
            raise KeyError("host")

    with pytest.raises(
        ConfigurationError, match=r"receiver Loses cannot be unpickled on an executor: KeyError: 'host'"
    ):
        ReceiverHarness(Loses())


def test_harness_runs_a_copy_of_the_receiver() -> None:
    receiver = Countdown(2)
    with ReceiverHarness(receiver) as harness:
        harness.until_records([2, 1])
    assert harness.receiver is not receiver
    assert not receiver.isStarted()


def test_onStart_that_does_not_return_fails_the_with_block_and_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loops(Receiver[int]):
        def onStart(self) -> None:
            while not self.isStopped():
                self.store(1)

        def onStop(self) -> None:
            """Nothing to stop."""

    monkeypatch.setattr("penstock_testing.receiver_harness._STOP_S", 0.05)
    harness = ReceiverHarness(Loops())
    with (
        pytest.raises(TimeoutError, match=r"^Loops\.onStart did not return within 0\.05 s: it must only start"),
        harness,
    ):
        pytest.fail("the receiver has not started")
    assert harness.await_termination(10)
    assert harness.errors == []


def test_record_that_comes_after_the_expected_ones_fails_the_test() -> None:
    class Doubles(Receiver[str]):
        def onStart(self) -> None:
            self.store_all(["a", "b"])

        def onStop(self) -> None:
            self.store("b")

    harness = ReceiverHarness(Doubles())
    harness.start()
    harness.until_records(["a", "b"])
    with pytest.raises(AssertionError, match=r"expected \['a', 'b'\], and there are \['a', 'b', 'b'\]"):
        harness.stop()
    # It is reported once.
    harness.stop()


def test_error_of_the_test_is_not_replaced_by_that_of_later_records() -> None:
    harness = ReceiverHarness(Groups())

    def test() -> None:
        with harness:
            harness.until_records(["a", "b", "c"])
            harness.receiver.store("d")
            raise ValueError("the test's own")

    with pytest.raises(ValueError, match="the test's own"):
        test()
    assert harness.records == ["a", "b", "c", "d"]


def test_invalid_configuration_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="blockInterval"):
        ReceiverHarness(Countdown(1), {"spark.streaming.blockInterval": "soon"})


class Repeats(ThreadReceiver[int]):
    def receive(self) -> None:
        try:
            self.store_all([1])
        except StoreError as error:
            self.reportError("not stored", error)
            self.store_all([2])


def test_refused_block_fails_its_store() -> None:
    harness = ReceiverHarness(Repeats(), {"spark.penstock.receiver.storeRetries": "0"})
    harness.refuse()
    with harness:
        harness.until_error("not stored")
        harness.until(lambda: harness.offers == 2)
        assert harness.count == 0


def test_held_block_is_stored_once_accepted() -> None:
    harness = ReceiverHarness(Repeats())
    harness.hold()
    with harness:
        harness.until(lambda: harness.offers == 1)
        assert (harness.count, harness.stored_records) == (0, 0)
        harness.accept()
        harness.until_records([1])


def test_end_of_the_with_block_accepts_held_blocks() -> None:
    harness = ReceiverHarness(Repeats())
    harness.hold()
    with harness:
        harness.until(lambda: harness.offers == 1)
    assert harness.records == [1]
