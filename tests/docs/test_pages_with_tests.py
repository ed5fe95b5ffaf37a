"""docs/testing.md and docs/writing-a-listener.md: the tests that they show pass."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import ListenerContext

if TYPE_CHECKING:
    from pyspark import SparkContext

DOCS = Path(__file__).parents[2] / "docs"


def names_of(page: str) -> dict[str, Any]:
    """What the Python blocks of a page define, run one after the other as a module that can be imported."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, page, "exec", dont_inherit=True), names)
    return names


def run_tests(page: str, given: dict[str, object]) -> int:
    """Run the tests of a page whose arguments are given; return their number."""
    tests = {test: inspect.signature(test).parameters for name, test in names_of(page).items() if name[:5] == "test_"}
    chosen = {test: names for test, names in tests.items() if ("sc" in names) == ("sc" in given)}
    for test, names in chosen.items():
        test(**{name: given[name] for name in names})
    return len(chosen)


@pytest.mark.parametrize("page", ["testing.md", "writing-a-listener.md"])
def test_tests_of_the_page_pass(page: str, tmp_path: Path) -> None:
    assert run_tests(page, {"tmp_path": tmp_path})


def test_listener_page_names_all_that_the_context_offers() -> None:
    section = (DOCS / "writing-a-listener.md").read_text("utf-8").partition("## What the context offers")[2]
    rows = re.findall(r"^\| \w.*?\| (`.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert named == {name for name in vars(ListenerContext) if not name.startswith("_")}


@pytest.mark.spark
def test_tests_of_operators_pass(sc: SparkContext) -> None:
    assert run_tests("testing.md", {"sc": sc})
