"""A launch that finds no free slot is reported in time, and succeeds once there is one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import engine_of

from penstock import StreamingContext, ThreadReceiver

pytestmark = pytest.mark.spark


class Once(ThreadReceiver[int]):
    """Stores one number."""

    def receive(self) -> None:
        self.store_all([1])


def test_a_launch_without_a_free_slot_is_reported_as_overdue_and_succeeds_later(
    make_ssc: Callable[..., StreamingContext], sc: Any, collect: Any, wait_for: Callable[..., None], tmp_path: Path
) -> None:
    def hold(index: int, _elements: Iterable[Any]) -> Iterable[int]:
        (tmp_path / str(index)).touch()
        deadline = time.monotonic() + 120
        while not (tmp_path / "freed").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return iter(())

    slots = threading.Thread(target=lambda: sc.parallelize(range(4), 4).mapPartitionsWithIndex(hold).count())
    slots.start()
    try:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 4, "all slots are taken")
        ssc = make_ssc(conf={"spark.penstock.receiver.launchTimeout": "3s"})
        batches = collect(ssc.receiverStream(Once()))
        ssc.start()
        wait_for(lambda: engine_of(ssc).tracker.receiver_infos()[0].recent_errors, "the error")
        said = engine_of(ssc).tracker.receiver_infos()[0].recent_errors[0].message
        assert "has not registered within 3 s of its launch (spark.penstock.receiver.launchTimeout): is there" in said
    finally:
        (tmp_path / "freed").touch()
        slots.join(10)
    wait_for(lambda: batches.records, "the record")
    assert batches.records == [1]
