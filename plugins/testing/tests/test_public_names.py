"""The public names of packages that export lazily."""

import re
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

import penstock
import penstock_testing as testing
from penstock import spi


def test_no_public_name_is_that_of_a_module() -> None:
    # An imported module replaces a function of the same name.
    assert not set(dir(testing)) & {module.name for module in iter_modules(testing.__path__)}


@pytest.mark.parametrize("surface", [penstock, spi, testing])
def test_star_import_gives_every_public_name(surface: ModuleType) -> None:
    names: dict[str, object] = {}
    exec(f"from {surface.__name__} import *", names)
    assert names.keys() - {"__builtins__"} == set(dir(surface))
    # Every import for type checkers has the form that is also read at run time.
    source = Path(str(surface.__file__)).read_text(encoding="utf-8")
    imported = re.findall(r"^    from \S+ import (.+)$", source, re.MULTILINE)
    assert {line.split()[-1] for line in imported} <= set(dir(surface))
    assert len(imported) > 20
