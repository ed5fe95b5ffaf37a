from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from uuid import uuid4

import pytest
from tests.mutation.defects import DEFECTS
from tests.mutation.equivalents import EQUIVALENTS
from tests.mutation.forks import Send, in_forks
from tests.mutation.mutations import Mutant, mutants_of
from tests.mutation.sandbox import SandboxError, run_inside
from tests.mutation.session import replace

_ROOT = Path(__file__).parents[2]
_MODULE = '''
class Bounds(dict):
    """A docstring is not mutated."""

    def __init__(self, first: int = 0) -> None:
        super().__init__(size=11)
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
        ("Bounds.__init__", "super().__init__(size=11)", "pass"),
        ("Bounds.__init__", "11", "12"),
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
    replace(next(mutant for mutant in mutants if mutant.after == "pass"))
    assert dict(loaded.Bounds()) == {}


def test_fork_that_hangs_is_killed_and_one_that_dies_has_ended() -> None:
    def run(task: str, send: Send) -> None:
        send(task)
        if task == "dies":
            os._exit(3)
        if task == "hangs":
            threading.Event().wait()

    forks = in_forks(["returns", "dies", "hangs"], run, lambda message: 0.1 if message == "hangs" else 30.0, jobs=2)
    assert {task: (messages, in_time) for task, messages, in_time in forks} == {
        "returns": (["returns"], True),
        "dies": (["dies"], True),
        "hangs": (["hangs"], False),
    }


def test_each_equivalent_mutant_exists() -> None:
    core = _ROOT / "core" / "src"
    functions = {f"penstock.{equivalent.function}" for equivalent in EQUIVALENTS}
    found: list[Mutant] = []
    for file in (core / "penstock").rglob("*.py"):
        module = ".".join(file.relative_to(core).with_suffix("").parts)
        of_module = {name.removeprefix(f"{module}.") for name in functions if name.startswith(f"{module}.")}
        if of_module:
            found += mutants_of(module, file, of_module)
    assert [equivalent for equivalent in EQUIVALENTS if not any(map(equivalent.covers, found))] == []


def test_each_defect_is_a_mutant() -> None:
    mutants = [defect.mutant() for defect in DEFECTS]
    assert len({defect.name for defect in DEFECTS}) == len(set(map(str, mutants))) == len(DEFECTS)
    assert [defect.name for defect in DEFECTS if not (_ROOT / "tests" / defect.package).is_dir()] == []


@pytest.fixture
def _sandbox() -> None:
    try:
        run_inside(["true"])
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("_sandbox")
def test_report_names_survivors_and_killers(tmp_path: Path) -> None:
    output = tmp_path / "mutation.jsonl"
    command = (
        sys.executable,
        "-m",
        "tests.mutation",
        "blocks/partition_packing.py",
        "--tests",
        "tests/blocks/test_partition_packing.py",
    )
    completed = subprocess.run([*command, "--output", output], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"blocks/partition_packing.py: (\d+) of \1 mutants tested, [1-9]", completed.stdout)
    results = [json.loads(line) for line in output.read_text().splitlines()]
    assert {"killed", "survived"} >= {result["verdict"] for result in results} > {"survived"}
    assert all(result["killer"].startswith("tests/blocks") for result in results if result["verdict"] == "killed")


@pytest.mark.usefixtures("_sandbox")
def test_seed_that_kills_a_defect_is_reported(tmp_path: Path) -> None:
    output = tmp_path / "defects.jsonl"
    command = (sys.executable, "-m", "tests.mutation.simulate", "acknowledged-before-written", "--only-seeds")
    completed = subprocess.run(
        [*command, "--seeds", "1", "--output", output], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert "| seed 0 | not run |" in completed.stdout
    (result,) = map(json.loads, output.read_text().splitlines())
    assert "in no batch" in result["violation"]


@pytest.mark.usefixtures("_sandbox")
def test_sandbox_cannot_delete(tmp_path: Path) -> None:
    folder = _ROOT / "build" / f"sandbox-{uuid4()}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kept").touch()
    own = f"/tmp/penstock-{uuid4()}"
    program = (
        "import pathlib, shutil\n"
        f"pathlib.Path({own!r}).write_text('')\n"
        f"assert not pathlib.Path({str(tmp_path)!r}).exists()\n"
        f"shutil.rmtree({str(folder)!r}, ignore_errors=True)"
    )
    assert run_inside([sys.executable, "-c", program]) == 0
    assert (folder / "kept").exists()
    assert not Path(own).exists()
    shutil.rmtree(folder)


@pytest.mark.usefixtures("_sandbox")
@pytest.mark.parametrize("above", ["/tmp", "/dev/shm"])
def test_clone_below_a_folder_for_temporary_files_can_be_read_only(above: str) -> None:
    with TemporaryDirectory(dir=above) as folder:
        clone = Path(folder, "a clone")
        clone.mkdir()
        (clone / "kept").touch()
        assert run_inside(["sh", "-c", "test -f kept && ! rm -f kept"], root=clone) == 0
        assert (clone / "kept").exists()
