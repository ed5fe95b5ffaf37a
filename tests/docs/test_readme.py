"""The README: its program is the example's and runs; its links exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.helpers import wait_for

from penstock import StreamingContext

if TYPE_CHECKING:
    from pyspark import SparkContext

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "custom_receiver.py"


def test_program_is_that_of_the_example() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    _docstring, _, code = EXAMPLE.read_text().partition('"""\n\n')
    assert program == code


@pytest.mark.parametrize(
    "page", ["README.md", "docs/dataframes.md", "docs/windows-and-state.md", "docs/writing-a-receiver.md"]
)
def test_links_have_targets(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.spark
def test_example_prints_means_until_it_stops(
    sc: SparkContext, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = ""

    def has_printed() -> bool:
        nonlocal printed
        printed += capsys.readouterr().out
        return "('room" in printed

    def await_a_mean(_ssc: StreamingContext, seconds: float) -> None:
        assert seconds == 10
        wait_for(has_printed, "a mean is printed")

    monkeypatch.setattr(StreamingContext, "awaitTermination", await_a_mean)
    program = EXAMPLE.read_text()
    for its, the_tests in {
        'SparkContext(appName="thermometers")': "shared",
        "ssc.stop(": "ssc.stop(stopSparkContext=False, ",
    }.items():
        assert program.count(its) == 1
        program = program.replace(its, the_tests)
    # As a program: the receiver's class travels whole.
    exec(compile(program, EXAMPLE.name, "exec"), {"__name__": "__main__", "shared": sc})
    printed += capsys.readouterr().out
    means = re.findall(r"\('room [123]', (\d+\.\d)\)", printed)
    # Sums of at least a few draws from a normal distribution with mean 20 and deviation 2.
    assert all(10 < float(mean) < 30 for mean in means)
