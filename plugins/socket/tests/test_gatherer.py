"""When what was gathered is to be stored."""

from __future__ import annotations

import math

import pyarrow as pa

from penstock_socket.gatherer import Gatherer


def test_waits_an_interval_from_the_first_bytes() -> None:
    gatherer = Gatherer(interval_s=0.5)
    assert not gatherer.is_ripe(100.0, math.inf)
    gatherer.begin(10.0)
    gatherer.begin(10.4)
    assert not gatherer.is_ripe(10.49, math.inf)
    assert gatherer.is_ripe(10.5, math.inf)


def test_does_not_wait_when_there_is_enough() -> None:
    gatherer = Gatherer(interval_s=0.5)
    gatherer.begin(10.0)
    gatherer.add(pa.array(["a"] * 9))
    assert not gatherer.is_ripe(10.0, 10)
    gatherer.add(pa.array(["a"]))
    assert gatherer.is_ripe(10.0, 10)
    gatherer.add(pa.array(["x" * (16 << 20)]))
    assert gatherer.is_ripe(10.0, math.inf)


def test_gives_all_in_order_and_begins_anew() -> None:
    gatherer = Gatherer(interval_s=0.5)
    gatherer.begin(10.0)
    for column in (pa.array(["a", "b"]), None, pa.array([], pa.string()), pa.array(["c"])):
        gatherer.add(column)
    table = gatherer.take()
    assert table is not None
    assert table.to_pydict() == {"value": ["a", "b", "c"]}
    assert gatherer.records == 0
    assert gatherer.take() is None
    assert not gatherer.is_ripe(99.0, 1)
