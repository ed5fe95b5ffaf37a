"""The table of operators is what the operators do."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COMPARE = runpy.run_path(str(ROOT / "tests" / "operators" / "compare.py"))
CASES = COMPARE["CASES"]
# operator, program, input, PySpark's result, Penstock's result, same
ROWS = [
    re.split(r" (?<!\\)\| ", line[2:-2])
    for line in (ROOT / "docs" / "operators.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| operator |")
]


@pytest.fixture(autouse=True)
def two_partitions() -> Iterator[None]:
    """As many as the table was made with."""
    from pyspark import SparkContext

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkContext, "defaultParallelism", property(lambda _sc: 2))
        yield


def test_the_table_has_every_public_operator_of_pyspark() -> None:
    from pyspark.streaming import DStream

    assert {row[0] for row in ROWS} == {name for name in vars(DStream) if not name.startswith("_")}


def test_the_table_has_every_program_and_no_other() -> None:
    assert [row[1] for row in ROWS] == [COMPARE["cell"](case.program) for case in CASES]


def test_a_difference_has_a_reason() -> None:
    for row in ROWS:
        assert row[5] == "yes" if row[3] == row[4] else re.match(r"no: \w+ \w+", row[5]), row


@pytest.mark.spark
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{n}-{case.operator}" for n, case in enumerate(CASES)])
def test_our_half_is_as_the_table_says(sc: Any, number: int) -> None:
    assert COMPARE["cell"](COMPARE["run_penstock"](sc, CASES[number])) == ROWS[number][4]
