"""Records that operators by key cannot use: the error says which, and what to do. All operators: in tests/graph."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import BatchFailedError
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


def test_keys_that_cannot_be_hashed_fail_the_batch(reasons: Any) -> None:
    operations = {
        "reduceByKey": lambda stream, _: stream.reduceByKey(max),
        "join": lambda stream, other: other.join(stream),
    }
    found = reasons(operations, [[([], 1)]], [[]])
    expected = (
        "TypeError: the key [] (list) cannot be hashed; make it a tuple, a string or another immutable value first"
    )
    assert found == dict.fromkeys(operations, expected)


def test_records_that_are_not_pairs_fail_the_batch(harness: StreamHarness) -> None:
    with pytest.raises(BatchFailedError, match=r"a record is 5 \(int\); make pairs first, with map"):
        harness.run(lambda stream: stream.updateStateByKey(lambda values, state: 1), [[5]])
