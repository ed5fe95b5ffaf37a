"""``pprint``: the first records of each batch on the screen."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark


RULE = "-------------------------------------------"


def test_pprint_prints_as_pyspark_does(run_outputs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def program(stream: DStream[Any]) -> None:
        stream.pprint(2)

    run_outputs(program, [[1, "b"], [1, 2, 3], []])
    times = [datetime.fromtimestamp(second) for second in (1, 2, 3)]
    expected = [
        *(RULE, f"Time: {times[0]}", RULE, "1", "b", ""),
        *(RULE, f"Time: {times[1]}", RULE, "1", "2", "...", ""),
        *(RULE, f"Time: {times[2]}", RULE, "", ""),
    ]
    assert capsys.readouterr().out == "\n".join(expected)


def test_pprint_prints_ten_records_by_default(run_outputs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def program(stream: DStream[Any]) -> None:
        stream.pprint()

    run_outputs(program, [list(range(11))])
    assert capsys.readouterr().out.splitlines()[3:] == [*map(str, range(10)), "...", ""]
