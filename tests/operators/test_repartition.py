"""``repartition``: more partitions, or fewer."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_the_number_of_partitions_changes_and_the_records_do_not(run_all: Any) -> None:
    def repartitioned(before: int, after: int) -> Any:
        return lambda stream: stream.repartition(before).repartition(after).glom().map(sorted)

    results = run_all({"2 to 5": repartitioned(2, 5), "5 to 2": repartitioned(5, 2)}, [[1, 2, 3, 4], [5, 6, 7, 8]])
    assert {name: [len(batch) for batch in batches] for name, batches in results.items()} == {
        "2 to 5": [5, 5],
        "5 to 2": [2, 2],
    }
    for batches in results.values():
        assert [sorted(itertools.chain(*batch)) for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8]]
