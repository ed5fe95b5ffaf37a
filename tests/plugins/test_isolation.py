"""A plugin affects neither other plugins nor the program."""

from __future__ import annotations

from importlib.metadata import PathDistribution
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.badplugins.zoo import Zoo
    from tests.plugins.conftest import Neighbours


def test_second_entry_point_for_an_object_keeps_the_first(zoo: Zoo, neighbours: Neighbours) -> None:
    # The module of `aaa`, offered once more.
    zoo.offer("mmm", zoo.modules[0], "dist-copy")
    neighbours.check(zoo.load())


class _Torn(PathDistribution):
    """What an interrupted uninstall leaves: entry points without metadata. Later Pythons raise where 3.11 says None."""

    @property
    def metadata(self) -> Any:
        raise FileNotFoundError("METADATA")


@pytest.mark.parametrize("kind", [PathDistribution, _Torn])
def test_distribution_without_metadata_is_tolerated(
    zoo: Zoo, neighbours: Neighbours, tmp_path: Path, kind: type[PathDistribution]
) -> None:
    info = tmp_path / "torn-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[penstock]\ntorn = zoo_torn\n")
    zoo.entry_points.extend(kind(info).entry_points)
    plugins = zoo.load()
    assert "zoo_torn" in zoo.record(plugins, "torn").fault
    neighbours.check(plugins)


def test_object_with_failing_attributes_is_no_listener(zoo: Zoo, neighbours: Neighbours) -> None:
    zoo.add(
        "touchy",
        """
        class Touchy:
            def __getattr__(self, name):
                raise RuntimeError("do not touch")

        @hookimpl
        def listeners(context):
            return [Touchy()]
        """,
    )
    neighbours.check(zoo.load())


LISTENERS = """
@hookimpl
def listeners(context):
    raise {error}
"""


def test_listeners_that_cannot_be_made_are_left_out(
    zoo: Zoo, neighbours: Neighbours, caplog: pytest.LogCaptureFixture
) -> None:
    zoo.add("mmm", LISTENERS.format(error="ZeroDivisionError"))
    neighbours.check(zoo.load())
    assert "plugin's listeners left out" in caplog.text


@pytest.mark.parametrize(
    ("raised", "error"),
    [("penstock.ConfigurationError('level=5')", ConfigurationError), ("KeyboardInterrupt", KeyboardInterrupt)],
    ids=["configuration", "Ctrl-C"],
)
def test_wrong_configuration_and_ctrl_c_are_no_fault_of_a_plugin(
    zoo: Zoo, raised: str, error: type[BaseException]
) -> None:
    zoo.add("mmm", LISTENERS.format(error=raised))
    plugins = zoo.load()
    with pytest.raises(error):
        plugins.listeners("context")


def test_unknown_hook_that_is_declared_optional_is_accepted(zoo: Zoo) -> None:
    # As written for a later version of Penstock.
    zoo.add("mmm", "@penstock.hookimpl(optionalhook=True)\ndef onFullMoon(moon): pass\n")
    assert zoo.record(zoo.load(), "mmm").fault == ""
