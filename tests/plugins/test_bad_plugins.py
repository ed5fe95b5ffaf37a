"""A plugin that fails to load is named and left out; the others work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.badplugins.zoo import FAULTY, Zoo

from penstock.errors import PluginError

if TYPE_CHECKING:
    from tests.plugins.conftest import Neighbours

RECEIVERS = "@hookimpl\ndef receivers():\n    "


@pytest.mark.parametrize("name", FAULTY)
def test_strict_mode_raises_for_a_bad_plugin(zoo: Zoo, neighbours: Neighbours, name: str) -> None:
    zoo.add_bad(name)
    with pytest.raises(PluginError) as caught:
        zoo.load(strict=True)
    assert f"plugin {name} (bad-{name} 2.5) does not load: " in str(caught.value)
    assert FAULTY[name].words in str(caught.value)


def test_ctrl_c_while_a_plugin_loads_ends_the_program(zoo: Zoo) -> None:
    zoo.add("interrupted", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        zoo.load()


@pytest.mark.parametrize("name", ["with space", "1st", "dotted.name", "ümlaut"])
def test_illegal_plugin_name_is_refused(zoo: Zoo, neighbours: Neighbours, name: str) -> None:
    module = zoo.add("placeholder", f"{RECEIVERS}return []")
    zoo.entry_points.pop()
    zoo.offer(name, module, "dist-named")
    plugins = zoo.load()
    assert f"{name!r} is not lowercase ASCII" in zoo.record(plugins, name).fault
    assert module not in sys.modules
    neighbours.check(plugins)


def test_name_of_a_failed_plugin_can_be_reused(zoo: Zoo) -> None:
    zoo.add("twin", "raise RuntimeError", distribution="dist-one")
    zoo.add("twin", f"{RECEIVERS}return [penstock.ReceiverSpec('r2', dict)]", distribution="dist-two")
    plugins = zoo.load()
    assert [bool(record.fault) for record in plugins.loaded] == [True, False]
    assert list(plugins.specs("receivers")) == ["r2"]


def test_partially_loaded_plugin_is_unregistered(zoo: Zoo, neighbours: Neighbours) -> None:
    zoo.add(
        "half",
        """
        heard = []

        @hookimpl
        def input_streams():
            return [penstock.InputStreamSpec("half-stream", dict)]

        @hookimpl
        def onBatchCompleted(batchCompleted):
            heard.append(batchCompleted)

        @hookimpl
        def receivers():
            return [penstock.ReceiverSpec("half-receiver", dict)]

        @hookimpl
        def rate_estimators():
            raise RuntimeError("no estimator")
        """,
    )
    plugins = zoo.load()
    assert plugins.specs("input_streams") == {}
    assert "half-receiver" not in plugins.specs("receivers")
    neighbours.check(plugins)
    assert sys.modules[zoo.modules[-1]].heard == []
