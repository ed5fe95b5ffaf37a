"""Modules of the old layout: the error is one line that says what moved and what to install."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.badplugins.zoo import Zoo

MOVED = {
    "penstock.testing": "penstock.testing moved to penstock_testing",
    "penstock.cli": "penstock.cli moved to penstock_cli",
    "penstock.launch": "penstock.launch moved to penstock_cli",
    "penstock.helpers": "penstock.helpers moved to penstock.spi",
}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core is installed, and no other distribution."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_group: importlib.metadata.EntryPoints())
    find: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name.startswith("penstock_") else find(name, *more)
    )


@pytest.mark.parametrize("module", MOVED)
def test_module_that_moved_is_named_with_its_new_name(module: str) -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        import_module(module)
    assert str(raised.value) == MOVED[module] + ": change the import"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("module", MOVED)
def test_distribution_that_is_not_installed_is_named(module: str) -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        import_module(module)
    new = MOVED[module].rpartition(" ")[2]
    install = f", and pip install {new.replace('_', '-')}" if new != "penstock.spi" else ""
    assert str(raised.value) == f"{MOVED[module]}: change the import{install}"


@pytest.mark.parametrize(
    "statement",
    ["from penstock import testing", "import penstock.testing.plant", "from penstock.testing import Feeder"],
)
def test_each_form_of_an_import_has_the_message(statement: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^penstock\.testing moved to penstock_testing: change the import$"):
        exec(statement)


@pytest.mark.parametrize(
    ("surface", "name"),
    [
        *(("penstock.spi", name) for name in ("StoreQueue", "Lines", "keys", "make_receiver", "receiver_spec")),
        *(("penstock", name) for name in ("RelaunchingReceiverHost", "StatsReportListener")),
        *(("penstock_testing", name) for name in ("BlockStore", "HttpFeeder", "Plant", "Subject", "run_subject")),
    ],
)
def test_name_of_the_old_layout_that_is_gone_says_what_to_use_instead(surface: str, name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{re.escape(surface)}\.{name} is gone: \w") as raised:
        exec(f"from {surface} import {name}")
    assert "\n" not in str(raised.value)
    assert name not in dir(import_module(surface))


def test_other_unknown_names_are_pythons() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'penstock\.contxt'$"):
        import_module("penstock.contxt")
    with pytest.raises(ImportError, match="cannot import name 'StreamingContxt'"):
        exec("from penstock import StreamingContxt")


@pytest.mark.parametrize("module", MOVED)
def test_plugin_for_the_old_layout_is_left_out_with_that_line(zoo: Zoo, module: str) -> None:
    zoo.add("one", f"from {module} import anything")
    fault = zoo.record(zoo.load(), "one").fault
    assert fault == f"ModuleNotFoundError: {MOVED[module]}: change the import"


def _run(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )


RUN_AS_MODULE = (
    "import runpy, sys; sys.argv = ['penstock', '--version']; runpy.run_module('penstock', None, '__main__')"
)
WITHOUT_OTHERS = (
    "import importlib.metadata as m, importlib.util as u; m.entry_points = lambda **_group: m.EntryPoints();"
    "find = u.find_spec; u.find_spec = lambda n, *p: None if n.startswith('penstock_') else find(n, *p);"
)


def test_python_m_penstock_runs_the_command(tmp_path: Path) -> None:
    ended = _run(RUN_AS_MODULE, tmp_path)
    assert (ended.returncode, ended.stdout.split()[0]) == (0, "penstock")


def test_python_m_penstock_without_the_command_says_what_to_install(tmp_path: Path) -> None:
    ended = _run(WITHOUT_OTHERS + RUN_AS_MODULE, tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == "python -m penstock needs the command of this name: pip install penstock-cli\n"


@pytest.mark.parametrize("module", MOVED)
def test_python_m_of_a_module_that_moved_names_the_new_one(tmp_path: Path, module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", module], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (1, f"{MOVED[module]}: change the command\n")
