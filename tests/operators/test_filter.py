"""``filter``: those for which a function is true."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


def test_records_with_a_true_result_remain(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.filter(lambda n: n % 2)

    assert harness.run(operation, [[1, 2, 3, 4], [8], []]) == [[1, 3], [], []]
