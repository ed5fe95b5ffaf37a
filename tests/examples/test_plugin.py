"""The example plugin, installed as its own distribution, passes its tests."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from tests.helpers.forked import run_module

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"


def test_example_plugin_passes_its_tests(tmp_path: Path) -> None:
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    header = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"{header}\n{(PLUGIN / project['readme']).read_text()}")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in each.items()) for group, each in groups]
    (info / "entry_points.txt").write_text("".join(lines))
    path = os.pathsep.join([str(PLUGIN / "src"), str(tmp_path)])
    ran = run_module(
        "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=PLUGIN, env={**os.environ, "PYTHONPATH": path}
    )
    assert ran.returncode == 0, ran.stdout
    # It makes its records itself, so that nothing is fed to it.
    assert "0 failed; 67 in all; grade: loads (nothing that needs data was tested" in ran.stdout
