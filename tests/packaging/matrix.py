"""Installs the wheels by pip alone for each Python and PySpark, and runs a program: ``-m tests.packaging.matrix``.

Builds every wheel once. Each cell is a fresh virtual environment outside of this folder, so that nothing of the
repository can be imported there; it installs ``penstock-spark`` and runs ``program.py``. One more cell for each Python
installs the core alone. Takes minutes a cell: pip builds PySpark from source once for each of its versions.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
#: What the distributions promise: Python from 3.11 on, PySpark from 4.0 on.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PYSPARKS = ("4.0", "4.1", "4.2", "4.3")
_LIMIT_S = 1800
# Nothing that was set up for another Python or Spark gets into a cell.
_HIDDEN = ("PYTHONPATH", "PYTHONHOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


@frozen
class Cell:
    """One environment to try.

    Attributes:
        python: version series, such as ``3.11``.
        pyspark: version series, such as ``4.3``.
        core_alone: install no plugin and no extra.
    """

    python: str
    pyspark: str
    core_alone: bool = False

    @property
    def installed(self) -> str:
        """The distribution that is installed with what it depends on."""
        return "penstock-core" if self.core_alone else "penstock-spark"

    @property
    def folder(self) -> str:
        """The folder of its environment."""
        return f"python-{self.python}-pyspark-{self.pyspark}-{self.installed}"

    def requirements(self, wheels: Path, *, needs_java: bool) -> list[str]:
        """What pip is asked for: the wheels by their paths, since a registry may offer other distributions."""
        paths = sorted(wheels.glob("penstock_core-*.whl" if self.core_alone else "*.whl"))
        extras = {"penstock_cli": "[java]" * needs_java}
        named = [f"{path}{extras.get(path.name.partition('-')[0], '')}" for path in paths]
        return [*named, f"pyspark~={self.pyspark}.0"]


@frozen
class Outcome:
    """What came of a cell.

    Attributes:
        cell: the cell.
        result: ``ok``, ``FAILED`` or ``not tried``.
        detail: the versions that ran, or the reason.
        seconds: for installing, and for running.
    """

    cell: Cell
    result: str
    detail: str
    seconds: tuple[float, float] = (0.0, 0.0)


def cells(pythons: Iterable[str], pysparks: Sequence[str]) -> Iterator[Cell]:
    """Every pair, and the core alone with the newest PySpark on each Python."""
    for python in pythons:
        yield from (Cell(python, pyspark) for pyspark in pysparks)
        yield Cell(python, pysparks[-1], core_alone=True)


def interpreters(further: Iterable[str] = ()) -> dict[str, str]:
    """The newest working interpreter of each version series: on PATH, pyenv's, and those given."""
    found: dict[tuple[int, ...], str] = {}
    homes = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))]
    candidates = [
        *further,
        *(str(path) for home in homes for path in sorted(home.glob("versions/3.*/bin/python3"))),
        *filter(None, (shutil.which(f"python{series}") for series in PYTHONS)),
    ]
    for candidate in candidates:
        asked = subprocess.run(
            [candidate, "-c", "import ensurepip, sys; print(*sys.version_info[:3])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0:
            found.setdefault(tuple(map(int, asked.stdout.split())), candidate)
    return {f"{version[0]}.{version[1]}": found[version] for version in sorted(found)}


def build_wheels(into: Path) -> None:
    """Build the wheel of every distribution."""
    for folder in (ROOT, ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))):
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)], folder)


def attempt(cell: Cell, python: str, wheels: Path, home: Path) -> Outcome:
    """Install a cell and run the program in it; the environment is deleted afterwards."""
    folder = home / cell.folder
    needs_java = not (shutil.which("java") or os.environ.get("JAVA_HOME"))
    if needs_java and cell.core_alone:
        return Outcome(cell, "not tried", "no Java on this machine, and the core brings none")
    begun, installed = time.monotonic(), 0.0
    try:
        _run([python, "-m", "venv", str(folder)], home)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *cell.requirements(wheels, needs_java=needs_java)], home)
        installed = time.monotonic()
        if cell.core_alone:
            printed = _run([str(folder / "bin/python"), str(PROGRAM)], folder)
        else:
            _run([str(folder / "bin/penstock"), "plugins", "list"], folder)
            printed = _run([str(folder / "bin/penstock"), "run", str(PROGRAM)], folder)
        versions = json.loads(printed.splitlines()[-1])
        detail = f"Python {versions['python']}, PySpark {versions['pyspark']}, DataFrames: {versions['dataframes']}"
        return Outcome(cell, "ok", detail, (installed - begun, time.monotonic() - installed))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        step = "run" if installed else "install"
        return Outcome(cell, "FAILED", f"{step}: {error}", (0.0, 0.0))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(outcomes: Iterable[Outcome]) -> str:
    """The outcomes as text, one a line."""
    rows: list[tuple[str, ...]] = [("python", "pyspark", "installed", "result", "install", "run", "")]
    for each in outcomes:
        took = [f"{seconds:.0f} s" if each.result == "ok" else "" for seconds in each.seconds]
        rows.append((each.cell.python, each.cell.pyspark, each.cell.installed, each.result, *took, each.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "  ".join([*(f"{text:<{width}}" for text, width in zip(row, widths, strict=False)), row[6]]).rstrip()
        for row in rows
    )


def main() -> int:
    """Try every cell that this machine can; print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="a further interpreter")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PYTHON/PYSPARK", help="a cell, such as 3.11/4.0"
    )
    chosen = parser.parse_args()
    found = interpreters(chosen.python)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="penstock-matrix-") as folder:
        home, wheels = Path(folder), Path(folder) / "wheels"
        build_wheels(wheels)
        for cell in cells(PYTHONS, PYSPARKS):
            if chosen.only and f"{cell.python}/{cell.pyspark}" not in chosen.only:
                continue
            if cell.python in found:
                outcomes.append(attempt(cell, found[cell.python], wheels, home))
            else:
                outcomes.append(Outcome(cell, "not tried", f"no Python {cell.python} on this machine"))
            print(table(outcomes[-1:]).splitlines()[-1], flush=True)
    print(f"\n{table(outcomes)}")
    return any(outcome.result == "FAILED" for outcome in outcomes)


def _run(command: list[str], folder: Path) -> str:
    """Run a command there.

    Raises:
        RuntimeError: it failed; with the end of what it printed.
        subprocess.TimeoutExpired: it took too long.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RuntimeError(" | ".join(line.strip() for line in lines[-3:]) or f"exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
