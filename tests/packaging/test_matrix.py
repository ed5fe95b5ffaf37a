"""The matrix of Pythons and PySparks: what it would try, what it says of the rest. Nothing is built or installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.packaging import matrix
from tests.packaging.matrix import Cell, Outcome


def test_every_pair_and_the_core_alone_are_cells() -> None:
    found = list(matrix.cells(("3.11", "3.12"), ("4.0", "4.1")))
    assert [(each.python, each.pyspark, each.installed) for each in found] == [
        (python, pyspark, installed)
        for python in ("3.11", "3.12")
        for pyspark, installed in (("4.0", "penstock-spark"), ("4.1", "penstock-spark"), ("4.1", "penstock-core"))
    ]
    assert len({each.folder for each in found}) == len(found)


def test_pip_gets_the_wheels_by_their_paths(tmp_path: Path) -> None:
    for name in ("penstock_cli", "penstock_core", "penstock_rate", "penstock_spark"):
        (tmp_path / f"{name}-0.1.0-py3-none-any.whl").touch()
    command, core, *others = sorted(map(str, tmp_path.iterdir()))
    all_of_them = Cell("3.11", "4.0").requirements(tmp_path, needs_java=True)
    assert all_of_them == [f"{command}[java]", core, *others, "pyspark~=4.0.0"]
    alone = Cell("3.11", "4.0", core_alone=True).requirements(tmp_path, needs_java=False)
    assert alone == [core, "pyspark~=4.0.0"]


def test_this_interpreter_is_found_and_one_that_does_not_run_is_not(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    found = matrix.interpreters([str(tmp_path / "python3"), sys.executable])
    assert found[f"{sys.version_info[0]}.{sys.version_info[1]}"]
    assert str(tmp_path / "python3") not in found.values()


def test_table_names_what_ran_what_failed_and_what_was_not_tried() -> None:
    text = matrix.table(
        [
            Outcome(Cell("3.11", "4.0"), "ok", "Python 3.11.7, PySpark 4.0.5", (61.0, 12.4)),
            Outcome(Cell("3.11", "4.1"), "FAILED", "install: no such wheel"),
            Outcome(Cell("3.14", "4.1"), "not tried", "no Python 3.14 on this machine"),
        ]
    )
    assert [line.split(None, 3) for line in text.splitlines()] == [
        ["python", "pyspark", "installed", "result     install  run"],
        ["3.11", "4.0", "penstock-spark", "ok         61 s     12 s  Python 3.11.7, PySpark 4.0.5"],
        ["3.11", "4.1", "penstock-spark", "FAILED                    install: no such wheel"],
        ["3.14", "4.1", "penstock-spark", "not tried                 no Python 3.14 on this machine"],
    ]


def test_failed_command_says_how_it_ended(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^one \| two \| three$"):
        # The public way builds every distribution.
        matrix._run([sys.executable, "-c", "raise SystemExit('zero\\none\\ntwo\\nthree')"], tmp_path)
