"""Folders of programs whose names begin like Penstock's are not mistaken for Penstock."""

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.graph.call_site import CallSite, call_site

PACKAGE = Path(penstock.__file__).parent


def called_from(filename: str) -> CallSite:
    """The call site of an operator that a file of this name calls."""
    names: dict[str, Callable[[], CallSite]] = {"operator": lambda: call_site("map")}
    exec(compile("def program():\n    return operator()\n", filename, "exec"), names)
    operator = compile("lambda: call_site('map')", str(PACKAGE / "graph" / "dstream.py"), "eval")
    names["operator"] = eval(operator, {"call_site": call_site})
    return names["program"]()


@pytest.mark.parametrize(
    "folder",
    ["/home/me", f"{PACKAGE}_app", f"{PACKAGE}-examples", f"{PACKAGE}2"],
    ids=["elsewhere", "penstock_app", "penstock-examples", "penstock2"],
)
def test_call_site_names_programs_in_any_folder(folder: str) -> None:
    assert called_from(f"{folder}/main.py").long == f"map at {folder}/main.py:2"
