"""The public names of packages that export lazily."""

from collections import OrderedDict
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

import penstock
import penstock_testing as testing
from penstock import spi

SURFACE = """
from contextlib import suppress as suppress
from typing import TYPE_CHECKING
from penstock.spi import lazy_exports
__getattr__, __dir__ = lazy_exports(__name__, {"Old": "use OrderedDict"})
if TYPE_CHECKING:
    from collections import OrderedDict as OrderedDict, abc
    from functools import partial
    from pyspark import StorageLevel as StorageLevel, context as _hidden
"""


def test_no_public_name_is_that_of_a_module() -> None:
    # An imported module replaces a function of the same name.
    assert not set(dir(testing)) & {module.name for module in iter_modules(testing.__path__)}


def test_star_import_gives_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from penstock.spi import *", names)
    assert names.keys() - {"__builtins__"} == set(dir(spi))
    assert penstock.__getattr__("__all__") == dir(penstock)


@pytest.mark.parametrize("surface", [penstock, spi, testing])
def test_every_public_name_is_imported_when_it_is_used(surface: ModuleType) -> None:
    assert {name for name in dir(surface) if getattr(surface, name) is None} == set()


def test_a_surface_exports_what_type_checkers_take_for_its_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "surface_of_a_test.py").write_text(SURFACE)
    monkeypatch.syspath_prepend(tmp_path)
    surface = import_module("surface_of_a_test")
    assert dir(surface) == ["OrderedDict", "StorageLevel", "suppress"]
    assert "OrderedDict" not in vars(surface)
    assert surface.OrderedDict is OrderedDict
    with pytest.raises(ImportError, match=r"surface_of_a_test\.Old is gone: use OrderedDict"):
        surface.__getattr__("Old")
    with pytest.raises(AttributeError, match="no attribute 'partial'"):
        surface.__getattr__("partial")
