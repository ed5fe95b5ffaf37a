"""Loading of working plugins: what entry points may name, what hooks may return."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from penstock import BatchCompleted, ConfigurationError, RateEstimatorSpec, hookspecs
from penstock.errors import UnknownNameError
from penstock.plugins.discovery import Plugins

if TYPE_CHECKING:
    from tests.badplugins.zoo import Zoo

RECEIVERS = """
@hookimpl
def receivers():
    {body}
"""

CLASS = """
class Plugin:
    made = 0

    def __init__(self):
        Plugin.made += 1

    @hookimpl
    def receivers(self):
        return [penstock.ReceiverSpec("from-class", dict)]
"""


def test_entry_point_may_name_a_module(zoo: Zoo) -> None:
    module = zoo.add("one", RECEIVERS.format(body="return [penstock.ReceiverSpec('r', dict, summary='s')]"))
    plugins = zoo.load()
    record = zoo.record(plugins, "one")
    assert (record.distribution, record.version, record.value) == ("dist-zoo_0", "1.0", module)
    assert (record.hooks, record.fault, record.disabled) == (["receivers"], "", False)
    assert record.origin == "one (dist-zoo_0 1.0)"
    assert plugins.spec("receivers", "r").summary == "s"
    assert plugins.specs("receivers") == {"r": record.specs["receivers"][0]}


def test_entry_point_may_name_a_class_which_is_instantiated_once(zoo: Zoo) -> None:
    module = zoo.add("one", CLASS, target="Plugin")
    assert zoo.load().spec("receivers", "from-class")
    assert sys.modules[module].Plugin.made == 1


def test_entry_point_may_name_an_object(zoo: Zoo) -> None:
    module = zoo.add("one", CLASS + "\nplugin = Plugin()", target="plugin")
    plugins = zoo.load()
    assert plugins.spec("receivers", "from-class")
    assert plugins.manager.is_registered(sys.modules[module].plugin)
    assert sys.modules[module].Plugin.made == 1


@pytest.mark.parametrize(
    "body",
    [
        "return [penstock.ReceiverSpec('r', dict)]",
        "return (penstock.ReceiverSpec('r', dict),)",
        "return penstock.ReceiverSpec('r', dict)",
        "yield penstock.ReceiverSpec('r', dict)",
    ],
)
def test_hook_returns_one_spec_or_any_iterable(zoo: Zoo, body: str) -> None:
    zoo.add("one", RECEIVERS.format(body=body))
    assert list(zoo.load().specs("receivers")) == ["r"]


def test_specs_of_different_kinds_may_share_a_name(zoo: Zoo) -> None:
    zoo.add(
        "one",
        """
        @hookimpl
        def receivers():
            return [penstock.ReceiverSpec("same", dict)]

        @hookimpl
        def input_streams():
            return [penstock.InputStreamSpec("same", dict)]

        @hookimpl
        def rate_estimators():
            return [penstock.RateEstimatorSpec("same", dict)]
        """,
    )
    plugins = zoo.load()
    assert [list(plugins.specs(hook)) for hook in ("receivers", "input_streams", "rate_estimators")] == [["same"]] * 3
    assert isinstance(plugins.spec("rate_estimators", "same"), RateEstimatorSpec)


def test_plugin_may_declare_the_contract_version(zoo: Zoo) -> None:
    zoo.add("text", "penstock_api = '1'\n" + RECEIVERS.format(body="return [penstock.ReceiverSpec('a', dict)]"))
    zoo.add("number", "penstock_api = 1\n" + RECEIVERS.format(body="return [penstock.ReceiverSpec('b', dict)]"))
    assert list(zoo.load().specs("receivers")) == ["b", "a"]


def test_unknown_name_suggests_the_nearest(zoo: Zoo) -> None:
    zoo.add("one", RECEIVERS.format(body="return [penstock.ReceiverSpec('socket', dict)]"))
    with pytest.raises(UnknownNameError, match=r"unknown receiver 'sokcet'\. Did you mean 'socket'\?"):
        zoo.load().spec("receivers", "sokcet")


def test_disabled_plugin_is_not_imported(zoo: Zoo, caplog: pytest.LogCaptureFixture) -> None:
    module = zoo.add("one", RECEIVERS.format(body="return [penstock.ReceiverSpec('r', dict)]"))
    plugins = zoo.load(disable=["one", "never-installed"])
    record = zoo.record(plugins, "one")
    assert (record.disabled, record.fault, record.hooks) == (True, "", [])
    assert plugins.specs("receivers") == {}
    assert plugins.listeners(None) == []
    assert module not in sys.modules
    assert "never-installed" in caplog.text


def test_disabled_broken_plugin_is_tolerated_in_strict_mode(zoo: Zoo) -> None:
    zoo.add("broken", "raise RuntimeError")
    assert zoo.record(zoo.load(disable=["broken"], strict=True), "broken").disabled


def test_duplicate_entry_point_is_loaded_once(zoo: Zoo) -> None:
    zoo.add("one", RECEIVERS.format(body="return [penstock.ReceiverSpec('r', dict)]"))
    zoo.entry_points *= 2
    plugins = zoo.load(strict=True)
    assert [record.name for record in plugins.loaded] == ["one"]


def test_installed_plugins_are_found(zoo: Zoo) -> None:
    zoo.add("zoo-plugin", RECEIVERS.format(body="return [penstock.ReceiverSpec('zoo-receiver', dict)]"))
    importlib.invalidate_caches()
    assert Plugins().spec("receivers", "zoo-receiver").name == "zoo-receiver"


def test_plugin_with_on_hooks_is_a_listener(zoo: Zoo) -> None:
    module = zoo.add(
        "one",
        """
        heard = []
        never_drop = True

        @hookimpl
        def onBatchCompleted(batchCompleted):
            heard.append(batchCompleted)
        """,
    )
    zoo.add_good("other")
    listener, *_others = zoo.load().listeners(None)
    assert listener.origin == "one (dist-zoo_0 1.0)"
    assert listener.never_drop
    assert list(listener.callbacks) == [BatchCompleted]
    listener.callbacks[BatchCompleted]("event")
    assert sys.modules[module].heard == ["event"]
    assert sys.modules["zoo_1"].heard == []


def test_listeners_hook_gets_the_context(zoo: Zoo) -> None:
    zoo.add_good("one")
    itself, offered = zoo.load().listeners("the context")
    assert getattr(offered.target, "context") == "the context"  # noqa: B009  # not a part of object
    assert offered.origin == itself.origin == "one (good-one 1.0)"


def test_store_hooks_can_wrap_each_other(zoo: Zoo) -> None:
    zoo.add(
        "observer",
        """
        import pluggy
        seen = []

        @hookimpl(wrapper=True)
        def store(block):
            stored = yield
            seen.append((block, stored))
            return stored
        """,
    )
    plugins = zoo.load(strict=True)

    class Core:
        @hookspecs.hookimpl(trylast=True)
        def store(self, block: object) -> str:
            return f"stored {block}"

    plugins.manager.register(Core())
    assert plugins.manager.hook.store(block="b", configuration={}) == "stored b"
    assert sys.modules["zoo_0"].seen == [("b", "stored b")]


DATAFRAMES = """
@hookimpl
def dataframes(stream, schema):
    return None if schema == "nothing" else (stream, schema)
"""


def test_one_plugin_answers_a_hook_that_needs_one_answer(zoo: Zoo) -> None:
    zoo.add("tables", DATAFRAMES)
    assert zoo.load().first_answer("dataframes", stream="lines", schema="text") == ("lines", "text")


def test_hook_without_an_answer_names_the_distribution_after_the_hook(zoo: Zoo) -> None:
    zoo.add("tables", DATAFRAMES)
    with pytest.raises(ConfigurationError, match=r"^no plugin offers dataframes: pip install penstock-dataf"):
        zoo.load().first_answer("dataframes", stream="lines", schema="nothing")


@pytest.mark.parametrize(
    ("body", "disable", "reason"),
    [
        (DATAFRAMES, ["dataframes"], "was left out: spark.penstock.plugins.disable names it"),
        ("raise OSError('no disk')", [], "was left out: OSError: no disk"),
        (DATAFRAMES, [], "does not offer it"),
    ],
    ids=["disabled", "left out", "silent"],
)
def test_plugin_named_after_a_hook_that_is_not_in_use_is_named_with_the_reason(
    zoo: Zoo, body: str, disable: list[str], reason: str
) -> None:
    zoo.add("dataframes", body)
    with pytest.raises(ConfigurationError) as error:
        zoo.load(disable).first_answer("dataframes", stream="lines", schema="nothing")
    assert str(error.value) == f"no plugin offers dataframes: the plugin dataframes (dist-zoo_0 1.0) {reason}"


@pytest.mark.parametrize(
    ("plugin", "distribution", "hook", "name"),
    [
        ("well", "dist-well", "receivers", "well"),
        ("acme", "penstock-well", "receivers", "well"),
        ("well", "dist-well", "receivers", "well-stream"),
        ("rate", "penstock-rate", "rate_estimators", "pid"),
    ],
)
@pytest.mark.parametrize(
    ("disable", "reason"), [((), "OSError: no disk"), (None, "spark.penstock.plugins.disable names it")]
)
def test_unknown_name_of_a_plugin_that_was_left_out_has_the_reason(
    zoo: Zoo, plugin: str, distribution: str, hook: str, name: str, disable: tuple[str, ...] | None, reason: str
) -> None:
    zoo.add(plugin, "raise OSError('no disk')", distribution=distribution, version="0.2.0")
    with pytest.raises(UnknownNameError) as error:
        zoo.load([plugin] if disable is None else disable).spec(hook, name)
    install = "pip install penstock-spark, which has the common plugins, or penstock-pid; " if name == "pid" else ""
    assert str(error.value).endswith(
        f"Known: none. No plugin offers it: {install}the plugin {plugin} ({distribution} 0.2.0) was left out: {reason}"
    )


def test_unknown_name_of_a_working_plugin_is_no_reason_to_install_it(zoo: Zoo) -> None:
    zoo.add_good("well")
    with pytest.raises(UnknownNameError, match=r"the plugin well \(good-well 1\.0\) does not offer it$"):
        zoo.load().spec("rate_estimators", "well")
