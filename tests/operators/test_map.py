"""``map``: one record for one."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


def test_each_record_becomes_one(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.map(str)

    assert harness.run(operation, [[1, 2, 3, 4], [], [None]]) == [["1", "2", "3", "4"], [], ["None"]]
