"""TableBatcher: when columns are stored together."""

from __future__ import annotations

import math

import pyarrow as pa

from penstock_socket.table_batcher import TableBatcher


def test_batch_is_due_an_interval_after_the_first_bytes() -> None:
    batcher = TableBatcher(interval_s=0.5)
    assert not batcher.is_due(100.0, math.inf)
    batcher.begin(10.0)
    batcher.begin(10.4)
    assert not batcher.is_due(10.49, math.inf)
    assert batcher.is_due(10.5, math.inf)


def test_enough_records_or_bytes_are_due_at_once() -> None:
    batcher = TableBatcher(interval_s=0.5)
    batcher.begin(10.0)
    batcher.add(pa.array(["a"] * 9))
    assert not batcher.is_due(10.0, 10)
    batcher.add(pa.array(["a"]))
    assert batcher.is_due(10.0, 10)
    batcher.add(pa.array(["x" * (16 << 20)]))
    assert batcher.is_due(10.0, math.inf)


def test_table_holds_all_columns_in_order_and_a_new_batch_starts() -> None:
    batcher = TableBatcher(interval_s=0.5)
    batcher.begin(10.0)
    for column in (pa.array(["a", "b"]), None, pa.array([], pa.string()), pa.array(["c"])):
        batcher.add(column)
    table = batcher.take()
    assert table is not None
    assert table.to_pydict() == {"value": ["a", "b", "c"]}
    assert batcher.records == 0
    assert batcher.take() is None
    assert not batcher.is_due(99.0, 1)


def test_records_beyond_the_wanted_ones_remain_for_the_next_table() -> None:
    batcher = TableBatcher(interval_s=0.5)
    batcher.begin(10.0)
    batcher.add(pa.array(["a", "b"]))
    batcher.add(pa.array(["c", "d"]))
    first = batcher.take(3)
    assert first is not None
    assert first.to_pydict() == {"value": ["a", "b", "c"]}
    assert (batcher.records, batcher.due_s) == (1, None)
    batcher.begin(11.0)
    batcher.add(pa.array(["e"]))
    assert batcher.due_s == 11.5
    rest = batcher.take(3)
    assert rest is not None
    assert rest.to_pydict() == {"value": ["d", "e"]}
    assert batcher.take(3) is None
