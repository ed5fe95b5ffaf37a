"""``RecordCounts`` counts each piece of a batch once."""

from __future__ import annotations

import pickle

from penstock_file.record_counts import RecordCounts, _MergeCounts


def test_piece_that_is_read_twice_counts_once() -> None:
    ledger = RecordCounts()
    ledger.open(1000)
    ledger.open(2000)
    merge = _MergeCounts()
    for update in ({1000: {0: 5}}, {1000: {1: 7}, 2000: {0: 3}}, {1000: {0: 5}}, {1000: {0: 2}}):
        assert merge.addInPlace(ledger, update) is ledger
    assert ledger.total(1000) == 12
    assert ledger.total(2000) == 3


def test_accumulator_copy_in_a_task_starts_empty() -> None:
    merge = pickle.loads(pickle.dumps(_MergeCounts()))
    counts = merge.zero(RecordCounts())
    for update in ({7: {0: 1}}, {7: {0: 4}}, {7: {1: 1}}):
        counts = merge.addInPlace(counts, update)
    assert counts == {7: {0: 4, 1: 1}}


def test_batches_that_were_cleaned_up_take_nothing() -> None:
    ledger = RecordCounts()
    for time_ms in (1000, 2000, 3000):
        ledger.open(time_ms)
    ledger.clean_up(2000)
    ledger.merge({1000: {0: 5}, 2000: {0: 6}})
    assert (ledger.total(1000), ledger.total(2000)) == (0, 6)
