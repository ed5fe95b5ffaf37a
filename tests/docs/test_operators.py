"""``tests/operators/compared.md`` and ``docs/operators.md``: the tables agree with what the operators do."""

from __future__ import annotations

import re
import runpy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.docs import write_operators
from tests.helpers.run_all import RunAll, RunOutputs

from penstock_testing import StreamHarness

ROOT = Path(__file__).parents[2]
COMPARE = runpy.run_path(str(ROOT / "tests" / "operators" / "compare.py"))
CASES = COMPARE["CASES"]
FEW = 3
# operator, program, input, PySpark's result, Penstock's result, same
ROWS = [
    re.split(r" (?<!\\)\| ", line[2:-2])
    for line in write_operators.COMPARED.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| operator |")
]


@pytest.fixture(scope="module")
def ours(sc: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """Penstock's result of every case: those that a stream alone is, together; the others one by one."""
    from pyspark import SparkContext

    with pytest.MonkeyPatch.context() as patch:
        # As many partitions as the table was made with.
        patch.setattr(SparkContext, "defaultParallelism", property(lambda _sc: 2))
        found = {n: COMPARE["run_penstock"](sc, case) for n, case in enumerate(CASES) if case.read is not None}
        together = {n: case for n, case in enumerate(CASES) if case.read is None}
        # Most cases have three batches; every batch runs all cases of its context.
        for cases in (
            {n: case for n, case in together.items() if case.num_batches <= FEW},
            {n: case for n, case in together.items() if case.num_batches > FEW},
        ):
            found |= run_together(sc, cases, str(tmp_path_factory.mktemp("checkpoints")))
        return found


def run_together(sc: Any, cases: dict[int, Any], checkpoint_directory: str) -> dict[int, Any]:
    """The results of cases whose result is what their stream holds, in one context."""
    inputs: list[Any] = []
    operations: dict[str, Any] = {}
    for number, case in cases.items():
        inputs += [batches for batches in case.inputs if batches not in inputs]
        operations[str(number)] = partial(make_stream, sc, case, [inputs.index(each) for each in case.inputs])
    run_all = RunAll(sc, RunOutputs(StreamHarness(sc, 1.0, checkpoint_directory)))
    found = run_all.by_time(operations, *inputs)
    return {
        int(number): [records for time, records in batches.items() if time <= CASES[int(number)].num_batches]
        for number, batches in found.items()
    }


def make_stream(sc: Any, case: Any, numbers: list[int], *streams: Any) -> Any:
    """The stream that a case's program makes of its inputs."""
    around = COMPARE["Surroundings"](Path("no folder is needed"))
    return case.make(sc, [streams[number] for number in numbers], 1.0, around)


def test_table_has_every_public_operator_of_pyspark() -> None:
    from pyspark.streaming import DStream

    assert {row[0] for row in ROWS} == {name for name in vars(DStream) if not name.startswith("_")}


def test_table_has_exactly_the_compared_programs() -> None:
    assert [row[1] for row in ROWS] == [COMPARE["cell"](case.program) for case in CASES]


def test_every_difference_has_a_reason() -> None:
    for row in ROWS:
        assert row[5] == "yes" if row[3] == row[4] else re.match(r"no: \w+ \w+", row[5]), row


def test_the_page_on_migration_counts_the_differences() -> None:
    assert sum(row[5] != "yes" for row in ROWS) == 3
    assert "The results differ in three cases" in (ROOT / "docs" / "migrate.md").read_text()


@pytest.mark.spark
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{n}-{case.operator}" for n, case in enumerate(CASES)])
def test_penstocks_result_agrees_with_the_table(ours: dict[int, Any], number: int) -> None:
    assert COMPARE["cell"](ours[number]) == ROWS[number][4]


def test_examples_are_those_that_the_code_and_the_comparison_give() -> None:
    written = write_operators.PAGE.read_text(encoding="utf-8")
    assert written == write_operators.page(), "run: python -m tests.docs.write_operators"


def test_every_operator_has_an_example() -> None:
    assert write_operators.operators() <= {name for names in write_operators.GROUPS.values() for name in names}


@pytest.mark.spark
@pytest.mark.usefixtures("frugal_plans")
def test_examples_that_pyspark_lacks_give_the_results_of_the_page(
    sc: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = write_operators.OWN.items()
    operations = {name: partial(write_operators.make, program, str(tmp_path)) for name, (program, _result) in own}
    run_all = RunAll(sc, RunOutputs(StreamHarness(sc, 1.0, str(tmp_path / "checkpoints"))))
    found = run_all(operations, write_operators.PAIRS)
    assert found == {name: result for name, (_program, result) in own}
    assert capsys.readouterr().out.count("|key|") == len(write_operators.PAIRS)  # what `df.show()` prints
    assert len(list(tmp_path.glob("out-*"))) == len(write_operators.PAIRS)
