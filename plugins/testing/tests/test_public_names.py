"""The public names of packages that export lazily."""

import ast
import inspect
from pkgutil import iter_modules
from types import ModuleType

import pytest

import penstock
import penstock_testing as testing
from penstock import spi


def test_no_public_name_is_that_of_a_module() -> None:
    # An imported module replaces a function of the same name.
    assert not set(dir(testing)) & {module.name for module in iter_modules(testing.__path__)}


def test_star_import_gives_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from penstock.spi import *", names)
    assert names.keys() - {"__builtins__"} == set(dir(spi))
    assert penstock.__getattr__("__all__") == dir(penstock)


@pytest.mark.parametrize("surface", [penstock, spi, testing])
def test_type_checkers_and_the_interpreter_see_the_same_names(surface: ModuleType) -> None:
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(surface))) if isinstance(node, ast.ImportFrom)]
    exported = {name.name: node.module for node in imports for name in node.names if name.asname == name.name}
    exported.pop("__version__", None)
    # The table is the subject: it has no public name.
    assert exported == {name: module for module, names in surface._NAMES.items() for name in names.split()}
