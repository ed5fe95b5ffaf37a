"""Folders of programs whose names begin like Penstock's are not mistaken for Penstock."""

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.graph.call_site import CallSite, call_site

PACKAGE = Path(penstock.__file__).parent


def called_from(filename: str) -> CallSite:
    """The call site of an operator that a file of this name calls."""
    names: dict[str, Any] = {"call_site": call_site}
    exec(compile("def map():\n    return call_site()\n", str(PACKAGE / "graph" / "dstream.py"), "exec"), names)
    exec(compile("def program():\n    return map()\n", filename, "exec"), names)
    site: CallSite = names["program"]()
    return site


@pytest.mark.parametrize(
    "folder",
    ["/home/me", f"{PACKAGE}_app", f"{PACKAGE}-examples", f"{PACKAGE}2"],
    ids=["elsewhere", "penstock_app", "penstock-examples", "penstock2"],
)
def test_call_site_names_programs_in_any_folder(folder: str) -> None:
    assert called_from(f"{folder}/main.py").long == f"map at {folder}/main.py:2"
