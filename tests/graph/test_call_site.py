"""The place in the program that created a stream."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock
from penstock.graph.call_site import CallSite, call_site
from penstock.graph.node import Node

PACKAGE = Path(penstock.__file__).parent


def called_from(filename: str) -> Callable[[Callable[[], CallSite]], CallSite]:
    """A function of that file, which calls another."""
    names: dict[str, Callable[[Callable[[], CallSite]], CallSite]] = {}
    exec(compile("def calls(other):\n    return other()\n", filename, "exec"), names)
    return names["calls"]


def test_call_site_is_the_calling_line_of_the_program() -> None:
    line = sys._getframe().f_lineno + 1
    site = _from_penstock()
    assert site == CallSite("map", f"map at test_call_site.py:{line}", f"map at {__file__}:{line}")


def test_call_site_skips_frames_of_penstock() -> None:
    in_graph = called_from(str(PACKAGE / "graph" / "dstream.py"))
    in_context = called_from(str(PACKAGE / "context.py"))
    in_program = called_from("/home/me/app.py")
    site = in_program(lambda: in_context(lambda: in_graph(_from_penstock)))
    assert site.short.startswith("calls at test_call_site.py:")
    assert in_program(_from_penstock) == CallSite("map", "map at app.py:2", "map at /home/me/app.py:2")


def _operator(name: str) -> Callable[[], CallSite]:
    """A function of Penstock's with that name, which asks for its call site."""
    names: dict[str, Any] = {"call_site": call_site}
    exec(compile(f"def {name}():\n    return call_site()\n", str(PACKAGE / "graph" / "dstream.py"), "exec"), names)
    operator: Callable[[], CallSite] = names[name]
    return operator


_from_penstock = _operator("map")


def test_call_site_skips_the_package_of_a_plugin_that_defines_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.graph.call_site._folders", {f"{PACKAGE}/"})
    package = ModuleType("acme_tables")
    package.__file__, package.__path__ = "/site-packages/acme_tables/__init__.py", []
    monkeypatch.setitem(sys.modules, "acme_tables", package)
    in_plugin, in_program = called_from("/site-packages/acme_tables/nodes.py"), called_from("/home/me/app.py")
    assert in_program(lambda: in_plugin(_from_penstock)).short == "map at nodes.py:2"
    type("WriteTable", (Node,), {"__module__": "acme_tables.nodes"})
    assert in_plugin(_from_penstock).short.startswith("calls at test_call_site.py:")


def test_call_site_of_a_stack_within_penstock_is_its_outermost_frame() -> None:
    assert _operator("x")().short.startswith("x at ")
