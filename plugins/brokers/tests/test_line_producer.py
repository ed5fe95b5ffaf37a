"""``LineProducer``: lines at a rate, the same for the same seed, and errors that are not hidden."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

import pytest

from penstock_brokers import LineProducer


def lines(seed: int, count: int = 200) -> list[str]:
    sent: queue.Queue[str] = queue.Queue()

    def send(batch: Sequence[str]) -> None:
        for line in batch:
            sent.put(line)

    with LineProducer(send, 10_000, seed):
        return [sent.get(timeout=30) for _ in range(count)]


def test_a_seed_decides_the_lines() -> None:
    assert lines(1) == lines(1)
    assert lines(1) != lines(2)
    assert all(len(line.split()) == 10 for line in lines(3))


def test_error_of_the_broker_is_raised_in_the_end() -> None:
    failed: queue.Queue[None] = queue.Queue()

    def fail(_lines: Sequence[str]) -> None:
        failed.put(None)
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"), LineProducer(fail, 1000):
        failed.get(timeout=30)


def test_error_of_the_block_is_not_replaced() -> None:
    failed = threading.Event()

    def fail(_lines: Sequence[str]) -> None:
        failed.set()
        raise OSError("refused")

    def interrupted() -> None:
        assert failed.wait(30)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), LineProducer(fail, 1000):
        interrupted()
