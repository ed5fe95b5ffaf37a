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


@pytest.mark.parametrize("page", ["README.md", "docs/windows-and-state.md", "docs/writing-a-receiver.md"])
def test_links_have_targets(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.spark
def test_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", str(EXAMPLE)], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    means = re.findall(r"\('room [123]', (\d+\.\d)\)", done.stdout)
    assert means
    # Sums of at least a few draws from a normal distribution with mean 20 and deviation 2.
    assert all(10 < float(mean) < 30 for mean in means)
