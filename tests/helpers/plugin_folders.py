"""Installs the folder of a plugin for programs that a test starts, without a package index."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path


def environment_with(*folders: Path) -> dict[str, str]:
    """The environment of a program in which these plugins are installed, as ``pip install --editable`` does it."""
    for folder in folders:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir(exist_ok=True)
        readme = (folder / "README.md").read_text(encoding="utf-8")
        header = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n\n"
        (info / "METADATA").write_text(header + readme, encoding="utf-8")
        groups = project["entry-points"].items()
        lines = [
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in each.items()) for group, each in groups
        ]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    commands = Path(sys.executable).parent
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        # On a busy machine the process that imports the plugin for the first check may start in more than 20 s.
        "PENSTOCK_TEST_SCALE": "6",
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
    }
