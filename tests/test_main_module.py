"""``python -m penstock``, with and without the distribution that has the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
