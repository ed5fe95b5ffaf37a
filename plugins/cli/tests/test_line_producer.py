"""``LineProducer``: lines for a seed, once they are wanted, no more than the source takes; and its errors."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

import pytest
from tests.helpers import wait_for

from penstock import PenstockError
from penstock_cli import line_producer
from penstock_cli.line_producer import LineProducer


def lines(seed: int, count: int = 200) -> list[str]:
    sent: queue.Queue[str] = queue.Queue()

    def send(batch: Sequence[str]) -> None:
        for line in batch:
            sent.put(line)

    with LineProducer(send, 10_000, seed) as producer:
        producer.begin()
        return [sent.get(timeout=30) for _ in range(count)]


def test_a_seed_decides_the_lines() -> None:
    assert lines(1) == lines(1)
    assert lines(1) != lines(2)
    assert all(len(line.split()) == 10 for line in lines(3))


def test_nothing_is_sent_before_the_producer_begins() -> None:
    sent = list[Sequence[str]]()
    with LineProducer(sent.append, 1_000_000):
        pass
    assert sent == []


def test_slow_source_gets_fewer_lines_and_rests_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that takes longer than the rate allows would otherwise get ever larger calls without a pause."""
    now_s, sent, rests = 0.0, list[int](), list[float]()

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal now_s
            if timeout is None:
                return super().wait()
            now_s += timeout
            rests.append(timeout)
            return len(rests) > 20

    def send(batch: Sequence[str]) -> None:
        nonlocal now_s
        sent.append(len(batch))
        # 1 ms per line, where the rate asks for ten times as many.
        now_s += len(batch) / 1000

    monkeypatch.setattr(line_producer, "monotonic", lambda: now_s)
    with LineProducer(send, 10_000) as producer:
        monkeypatch.setattr(producer, "_ended", Ended())
        producer.begin()
        wait_for(lambda: len(rests) > 20, "the producer has ended")
    assert max(sent) == sent[-1] == 10_000
    assert rests[1:] == pytest.approx([count / 1000 for count in sent])


def test_error_of_the_source_ends_the_producer_and_is_reported() -> None:
    failed = threading.Event()

    def fail(_lines: Sequence[str]) -> None:
        failed.set()
        raise OSError("refused")

    with LineProducer(fail, 1000) as producer:
        producer.check()
        producer.begin()
        assert failed.wait(30)
    with pytest.raises(PenstockError, match="the demonstration could not send lines: OSError: refused"):
        producer.check()
