"""Calls in order, and none after a failure."""

from __future__ import annotations

import pytest

from penstock_kafka.storing_thread import StoringThread


def test_nothing_is_stored_after_a_failure() -> None:
    thread, stored = StoringThread(), list[int]()

    def fail() -> None:
        raise OSError("disk gone")

    outcomes = [thread.submit(call) for call in (lambda: stored.append(1), fail, lambda: stored.append(2))]
    assert thread.finish(10)
    assert stored == [1]
    assert outcomes[0].exception() is None
    for outcome in outcomes[1:]:
        with pytest.raises(OSError, match="disk gone"):
            outcome.result()
