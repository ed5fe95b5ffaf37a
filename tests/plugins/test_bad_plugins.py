"""A plugin that fails to load is named and left out; the others work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from penstock.errors import PluginError

if TYPE_CHECKING:
    from tests.plugins.conftest import Neighbours, Zoo

RECEIVERS = "@hookimpl\ndef receivers():\n    "

#: Source, what the entry point names in it, what the fault says.
BAD = {
    "raises on import": ("raise RuntimeError('no such library')", "", "RuntimeError: no such library"),
    "leaves on import": ("raise SystemExit(3)", "", "SystemExit: 3"),
    "does not parse": ("def :", "", "SyntaxError"),
    "has no such attribute": ("", "missing", "AttributeError"),
    "is a number": ("thing = 5", "thing", "implements no hook"),
    "is nothing": ("thing = None", "thing", "implements no hook"),
    "is empty": ("", "", "is @penstock.hookimpl missing?"),
    "has an unknown hook": (
        "@hookimpl\ndef recievers(): pass",
        "",
        "unknown hook 'recievers'. Did you mean 'receivers'?",
    ),
    "has an unknown argument": ("@hookimpl\ndef onBatchCompleted(batch): pass", "", "batch"),
    "has another contract": (
        f"penstock_api = '2'\n{RECEIVERS}return []",
        "",
        "contract version 2; this Penstock has version 1",
    ),
    "cannot be made": ("class Plugin:\n    def __init__(self, needed): pass", "Plugin", "TypeError"),
    "raises when made": ("class Plugin:\n    def __init__(self): 1 / 0", "Plugin", "ZeroDivisionError"),
    "raises when asked": (f"{RECEIVERS}raise OSError('no disk')", "", "OSError: no disk"),
    "leaves when asked": (f"{RECEIVERS}raise SystemExit('bye')", "", "SystemExit: bye"),
    "leaves half-way": (f"{RECEIVERS}yield penstock.ReceiverSpec('r', dict)\n    raise SystemExit", "", "SystemExit"),
    "gives a number": (f"{RECEIVERS}return 5", "", "not iterable"),
    "gives text": (f"{RECEIVERS}return 'socket'", "", "returned 's', not a ReceiverSpec"),
    "gives another kind": (f"{RECEIVERS}return [penstock.InputStreamSpec('r', dict)]", "", "not a ReceiverSpec"),
    "gives names without form": (
        f"{RECEIVERS}return [penstock.ReceiverSpec('My Receiver', dict)]",
        "",
        "'My Receiver'",
    ),
    "gives numbers for names": (f"{RECEIVERS}return [penstock.ReceiverSpec(5, dict)]", "", "TypeError"),
    "takes its neighbour's name": (
        f"{RECEIVERS}return [penstock.ReceiverSpec('aaa-receiver', dict)]",
        "",
        "the receiver 'aaa-receiver' is offered by aaa (good-aaa 1.0) already",
    ),
    "gives one name twice": (
        f"{RECEIVERS}return [penstock.ReceiverSpec('r', dict), penstock.ReceiverSpec('r', list)]",
        "",
        "the receiver 'r' is offered by bad (dist-bad 2.5) already",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_plugin_is_left_out_and_the_others_work(
    zoo: Zoo, neighbours: Neighbours, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, target, fault = BAD[what]
    zoo.add("bad", source, target, distribution="dist-bad", version="2.5")
    plugins = zoo.load()
    assert fault in zoo.record(plugins, "bad").fault
    assert "bad (dist-bad 2.5)" in caplog.text
    assert sorted(plugins.specs("receivers")) == ["aaa-receiver", "zzz-receiver"]
    assert len(plugins.manager.get_plugins()) == 2
    assert len(plugins.listeners(None)) == 4
    neighbours.check(plugins)


@pytest.mark.parametrize("what", BAD)
def test_strict_mode_raises_for_a_bad_plugin(zoo: Zoo, neighbours: Neighbours, what: str) -> None:
    source, target, fault = BAD[what]
    zoo.add("bad", source, target, distribution="dist-bad", version="2.5")
    with pytest.raises(PluginError) as caught:
        zoo.load(strict=True)
    assert "bad (dist-bad 2.5)" in str(caught.value)
    assert fault in str(caught.value)


def test_missing_module_is_a_fault(zoo: Zoo, neighbours: Neighbours) -> None:
    zoo.offer("gone", "zoo_that_was_removed", "dist-gone")
    plugins = zoo.load()
    assert "zoo_that_was_removed" in zoo.record(plugins, "gone").fault
    neighbours.check(plugins)


@pytest.mark.parametrize("name", ["Upper", "with space", "1st", "dotted.name", "ümlaut"])
def test_illegal_plugin_name_is_refused(zoo: Zoo, neighbours: Neighbours, name: str) -> None:
    module = zoo.add("placeholder", f"{RECEIVERS}return []")
    zoo.entry_points.pop()
    zoo.offer(name, module, "dist-named")
    plugins = zoo.load()
    assert f"{name!r} is not lowercase ASCII" in zoo.record(plugins, name).fault
    assert module not in sys.modules
    neighbours.check(plugins)


def test_second_plugin_of_the_same_name_is_left_out(zoo: Zoo, neighbours: Neighbours) -> None:
    zoo.add("twin", f"{RECEIVERS}return [penstock.ReceiverSpec('r1', dict)]", distribution="dist-one")
    zoo.add("twin", f"{RECEIVERS}return [penstock.ReceiverSpec('r2', dict)]", distribution="dist-two")
    plugins = zoo.load()
    first, second = (record for record in plugins.loaded if record.name == "twin")
    assert (first.fault, second.fault) == ("", "the name 'twin' is taken by twin (dist-one 1.0)")
    assert "r1" in plugins.specs("receivers")
    assert "r2" not in plugins.specs("receivers")
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


@pytest.mark.parametrize("body", ["raise RuntimeError('no listeners')", "return 5", "yield 1 / 0"])
def test_failing_listeners_hook_is_left_out(
    zoo: Zoo, neighbours: Neighbours, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    zoo.add("mute", f"@hookimpl\ndef listeners(context):\n    {body}", distribution="dist-mute")
    plugins = zoo.load()
    neighbours.check(plugins)
    assert len(plugins.listeners(None)) == 4
    assert "mute (dist-mute 1.0)" in caplog.text
