"""The README: its program is the example's and runs; its links exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "custom_receiver.py"


def test_program_is_that_of_the_example() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    _docstring, _, code = EXAMPLE.read_text().partition('"""\n\n')
    assert program == code


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/dataframes.md",
        "docs/windows-and-state.md",
        "docs/writing-a-receiver.md",
    ],
)
def test_links_have_targets(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


# In place of the ten seconds that the example runs: until it has printed a mean.
UNTIL_A_MEAN_IS_PRINTED = """
import pathlib, time
deadline = time.monotonic() + 100
while "('room" not in pathlib.Path("out").read_text():
    assert time.monotonic() < deadline
    time.sleep(0.05)
"""


@pytest.mark.spark
@pytest.mark.usefixtures("pysparks_daemon")
def test_example_runs(tmp_path: Path) -> None:
    program, ten_seconds = EXAMPLE.read_text(), "ssc.awaitTermination(10)\n"
    assert program.count(ten_seconds) == 1
    (tmp_path / "example.py").write_text(program.replace(ten_seconds, UNTIL_A_MEAN_IS_PRINTED))
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-u", "-m", "penstock", "run", "example.py"],
            cwd=tmp_path,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    means = re.findall(r"\('room [123]', (\d+\.\d)\)", (tmp_path / "out").read_text())
    assert means
    # Sums of at least a few draws from a normal distribution with mean 20 and deviation 2.
    assert all(10 < float(mean) < 30 for mean in means)
