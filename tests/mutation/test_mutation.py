from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.mutation.mutations import Mutant, mutants_of
from tests.mutation.session import replace

_MODULE = '''
class Bounds:
    """A docstring is not mutated."""

    def __init__(self, first: int = 0) -> None:
        self._first = first

    def contains(self, number: int) -> bool:
        if number < self._first:
            return False
        return number - self._first <= 10

    @property
    def first(self) -> int:
        log.info("a call of the log is not mutated: %d", self._first + 1)
        return self._first
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, list[Mutant]]:
    path = tmp_path / "bounds.py"
    path.write_text(_MODULE)
    loaded = ModuleType("bounds")
    loaded.__dict__["log"] = logging.getLogger()
    exec(compile(_MODULE, str(path), "exec"), loaded.__dict__)
    monkeypatch.setitem(sys.modules, "bounds", loaded)
    return loaded, list(mutants_of("bounds", path))


def test_mutants_change_one_place(module: tuple[ModuleType, list[Mutant]]) -> None:
    changes = {(mutant.function, mutant.before, mutant.after) for mutant in module[1]}
    assert changes == {
        ("Bounds.contains", "number < self._first", "number <= self._first"),
        ("Bounds.contains", "False", "True"),
        ("Bounds.contains", "return number - self._first <= 10", "return None"),
        ("Bounds.contains", "number - self._first <= 10", "number - self._first < 10"),
        ("Bounds.contains", "number - self._first", "number + self._first"),
        ("Bounds.contains", "10", "11"),
        ("Bounds.first", "return self._first", "return None"),
    }


def test_mutant_replaces_the_function(module: tuple[ModuleType, list[Mutant]]) -> None:
    loaded, mutants = module
    bounds = loaded.Bounds(1)
    assert bounds.contains(1)
    assert not bounds.contains(12)
    replace(next(mutant for mutant in mutants if mutant.after == "11"))
    assert bounds.contains(12)
    replace(next(mutant for mutant in mutants if mutant.function == "Bounds.first"))
    assert bounds.first is None


def test_report_names_survivors_and_killers(tmp_path: Path) -> None:
    tests = tmp_path / "test_partition_packing.py"
    tests.write_text(
        "from penstock.blocks.partition_packing import pack\n\n"
        "def test_nothing_is_packed():\n    assert pack([]) == []\n"
    )
    output = tmp_path / "mutation.json"
    command = (
        sys.executable,
        "-m",
        "tests.mutation",
        "blocks/partition_packing.py",
        "--tests",
        tests,
        "--output",
        output,
    )
    completed = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert "survived: penstock.blocks.partition_packing" in completed.stdout
    assert '"verdict": "killed"' in output.read_text()
