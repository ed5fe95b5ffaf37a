"""The public names of packages that export lazily."""

from pkgutil import iter_modules

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
