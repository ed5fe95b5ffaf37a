"""Two plugins offer one name: it is refused when a program uses it, and everything else of both stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.badplugins.zoo import Zoo

from penstock.errors import ConfigurationError, PluginError
from penstock.plugins.discovery import Plugins

if TYPE_CHECKING:
    from tests.plugins.conftest import Neighbours

OFFERS = """
@attrs.frozen
class Options:
    {option}: int = 0

@hookimpl
def receivers():
    return [penstock.ReceiverSpec("socket", {factory}, Options), penstock.ReceiverSpec("{own}", dict)]
"""
CLASH = (
    "the receiver 'socket' is offered by acme (acme-clash 1.0) and socket (penstock-socket 1.0): "
    "set spark.penstock.plugins.prefer to acme-clash or penstock-socket"
)


@pytest.fixture
def clash(zoo: Zoo) -> Zoo:
    zoo.add("acme", OFFERS.format(option="depth", factory="list", own="acme"), distribution="acme-clash")
    zoo.add("socket", OFFERS.format(option="port", factory="dict", own="raw-socket"), distribution="penstock-socket")
    return zoo


def test_name_that_two_plugins_offer_is_refused_when_it_is_used(clash: Zoo, neighbours: Neighbours) -> None:
    plugins = clash.load()
    with pytest.raises(ConfigurationError) as error:
        plugins.spec("receivers", "socket")
    assert str(error.value) == CLASH
    assert plugins.clashes() == [CLASH]
    neighbours.check(plugins)


def test_other_names_of_both_plugins_stay(clash: Zoo) -> None:
    plugins = clash.load()
    assert [record.fault for record in plugins.loaded] == ["", ""]
    assert sorted(plugins.specs("receivers")) == ["acme", "raw-socket"]
    assert plugins.spec("receivers", "raw-socket").name == "raw-socket"


@pytest.mark.parametrize(
    ("prefer", "factory"),
    [(("acme-clash",), list), (("penstock-socket",), dict), (("other", "penstock-socket", "acme-clash"), dict)],
)
def test_preferred_distribution_decides(clash: Zoo, prefer: tuple[str, ...], factory: type) -> None:
    plugins = clash.load(prefer=prefer)
    assert plugins.spec("receivers", "socket").factory is factory
    assert plugins.clashes() == []
    assert sorted(plugins.specs("receivers")) == ["acme", "raw-socket", "socket"]


def test_disabled_plugin_does_not_clash(clash: Zoo) -> None:
    assert clash.load(["acme"]).spec("receivers", "socket").factory is dict


def test_preferred_distribution_that_is_not_installed_is_logged(clash: Zoo, caplog: pytest.LogCaptureFixture) -> None:
    clash.load(prefer=["penstock-sokcet", "acme-clash"])
    assert "preferred distribution not installed" in caplog.text
    assert "penstock-sokcet" in caplog.text


def test_clash_is_logged(clash: Zoo, caplog: pytest.LogCaptureFixture) -> None:
    clash.load()
    assert "name offered by several plugins" in caplog.text
    assert "acme-clash" in caplog.text


def test_clash_is_refused_in_strict_mode(clash: Zoo) -> None:
    with pytest.raises(PluginError, match=r"the receiver 'socket' is offered by acme \(acme-clash 1\.0\) and socket"):
        clash.load(strict=True)
    assert clash.load(strict=True, prefer=["acme-clash"]).clashes() == []


def test_options_of_either_plugin_are_known_until_one_is_preferred(clash: Zoo) -> None:
    prefix = "spark.penstock.receiver.socket."
    assert clash.load().known_options()[prefix] == ["depth", "port"]
    assert clash.load(prefer=["penstock-socket"]).known_options()[prefix] == ["port"]


def test_plugins_of_one_name_are_both_loaded(zoo: Zoo, neighbours: Neighbours) -> None:
    for distribution, names in (("dist-one", "ac"), ("dist-two", "bc")):
        specs = ", ".join(f"penstock.ReceiverSpec('{name}', dict)" for name in names)
        zoo.add("twin", f"@hookimpl\ndef receivers():\n    return [{specs}]", distribution=distribution)
    plugins = zoo.load()
    assert {"a", "b"} <= plugins.specs("receivers").keys()
    assert plugins.clashes() == [
        "the receiver 'c' is offered by twin (dist-one 1.0) and twin (dist-two 1.0): "
        "set spark.penstock.plugins.prefer to dist-one or dist-two"
    ]
    assert "c" in zoo.load(prefer=["dist-two"]).specs("receivers")
    neighbours.check(plugins)


def test_name_of_another_kind_is_no_clash(zoo: Zoo) -> None:
    zoo.add("one", "@hookimpl\ndef receivers():\n    return [penstock.ReceiverSpec('same', dict)]")
    zoo.add("two", "@hookimpl\ndef input_streams():\n    return [penstock.InputStreamSpec('same', dict)]")
    assert zoo.load().clashes() == []


ANSWERS = """
@hookimpl
def state(stream, operator, options):
    return __name__
"""
ANSWER_CLASH = (
    "the hook 'state' is answered by mine (my-state 1.0) and state (penstock-state 1.0): "
    "set spark.penstock.plugins.prefer to my-state or penstock-state"
)


@pytest.fixture
def answers(zoo: Zoo) -> Zoo:
    for name, distribution in (("mine", "my-state"), ("state", "penstock-state")):
        zoo.add(name, ANSWERS, distribution=distribution)
    return zoo


def answer(plugins: Plugins) -> str:
    answered: str = plugins.first_answer("state", stream=None, operator="updateStateByKey", options=None)
    return answered


def test_hook_that_two_plugins_answer_is_refused_when_it_is_used(answers: Zoo, neighbours: Neighbours) -> None:
    plugins = answers.load()
    with pytest.raises(ConfigurationError) as error:
        answer(plugins)
    assert str(error.value) == ANSWER_CLASH
    assert plugins.clashes() == [ANSWER_CLASH]
    neighbours.check(plugins)


@pytest.mark.parametrize("preferred", [0, 1])
def test_preferred_distribution_answers_a_hook(answers: Zoo, preferred: int) -> None:
    plugins = answers.load(prefer=["other", ("my-state", "penstock-state")[preferred]])
    assert answer(plugins) == answers.modules[preferred]
    assert plugins.clashes() == []


def test_hook_that_two_plugins_answer_is_refused_in_strict_mode(answers: Zoo) -> None:
    with pytest.raises(PluginError, match="the hook 'state' is answered by mine"):
        answers.load(strict=True)
    assert answer(answers.load(["mine"], strict=True)) == answers.modules[1]


def test_plugin_that_wraps_an_answer_is_no_rival(zoo: Zoo) -> None:
    zoo.add("state", ANSWERS)
    zoo.add("zwrapper", "@hookimpl(wrapper=True)\ndef state():\n    return f'wrapped {(yield)}'\n")
    plugins = zoo.load(strict=True)
    assert answer(plugins) == f"wrapped {zoo.modules[0]}"


def test_every_hook_with_one_answer_is_checked_for_rivals() -> None:
    manager = Plugins(entry_points=[]).manager
    single = {caller.name for caller in vars(manager.hook).values() if caller.spec and caller.spec.opts["firstresult"]}
    # Every block is stored by the core, unless a plugin answers instead.
    assert single - {"store"} == set(Plugins.ANSWERED)


def test_no_plugins_do_not_clash() -> None:
    assert Plugins(entry_points=[]).clashes() == []
