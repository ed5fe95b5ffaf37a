"""``flatMap``: any number of records for one."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


def test_results_are_flattened(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.flatMap(lambda n: (n, n * 2) if n else [])

    assert harness.run(operation, [[1, 2], [0], [0, 5]]) == [[1, 2, 2, 4], [], [5, 10]]
