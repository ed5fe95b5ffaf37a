"""The public names of the testing kit."""

from pkgutil import iter_modules

from penstock import testing


def test_no_public_name_is_that_of_a_module() -> None:
    # An imported module replaces a function of the same name.
    assert not set(dir(testing)) & {module.name for module in iter_modules(testing.__path__)}
