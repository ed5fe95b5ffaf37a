"""``pprint``: the first records of each batch on the screen."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark


def test_pprint_prints_ten_records_by_default(run_outputs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def program(stream: DStream[Any]) -> None:
        stream.pprint()

    run_outputs(program, [list(range(11))])
    rule, time, second_rule, *rest = capsys.readouterr().out.splitlines()
    assert rule == second_rule == "-" * 43
    assert time.startswith("Time: 19")
    assert rest == [*map(str, range(10)), "...", ""]
