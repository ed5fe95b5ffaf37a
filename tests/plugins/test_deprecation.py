"""How the plugin contract deprecates: the steps that docs/publishing-a-plugin.md promises to authors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import hookspecs

if TYPE_CHECKING:
    from tests.badplugins.zoo import Zoo

    from penstock.blocks.block import Block, StoredBlock

STORE = """
@hookimpl(wrapper=True)
def store({arguments}):
    return (yield)
"""


def _store(block: Block, launch: str) -> StoredBlock | None:
    """The hook with an argument that a later version has deprecated."""


@pytest.fixture
def deprecated_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "the argument 'launch' of the hook store goes in 0.3: read block.id.epoch"
    spec: Any = hookspecs.hookspec(firstresult=True, warn_on_impl_args={"launch": DeprecationWarning(message)})
    _store.__name__ = "store"
    monkeypatch.setattr(hookspecs, "store", spec(_store))


@pytest.mark.usefixtures("deprecated_argument")
def test_deprecated_argument_warns_with_the_file_of_the_plugin_and_still_works(zoo: Zoo) -> None:
    module = zoo.add("old", STORE.format(arguments="block, launch"))
    with pytest.warns(
        DeprecationWarning, match=r"^the argument 'launch' .* goes in 0\.3: read block\.id\.epoch$"
    ) as seen:
        plugins = zoo.load()
    assert [warning.filename.endswith(f"{module}.py") for warning in seen] == [True]
    record = zoo.record(plugins, "old")
    assert (record.hooks, record.fault) == (["store"], "")


@pytest.mark.usefixtures("deprecated_argument")
def test_plugin_without_the_deprecated_argument_is_not_warned(zoo: Zoo) -> None:
    zoo.add("new", STORE.format(arguments="block"))
    # A warning would be an error here, and the plugin left out.
    assert zoo.record(zoo.load(), "new").fault == ""


def test_deprecated_hook_warns(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def receivers() -> None:
        """The hook in a later version."""

    warning = DeprecationWarning("the hook receivers goes in 0.3: implement sources")
    spec: Any = hookspecs.hookspec(warn_on_impl=warning)
    monkeypatch.setattr(hookspecs, "receivers", spec(receivers))
    zoo.add_good("old")
    with pytest.warns(DeprecationWarning, match="implement sources"):
        plugins = zoo.load()
    assert plugins.spec("receivers", "old-receiver").name == "old-receiver"


def test_an_argument_added_later_needs_no_change_of_a_plugin(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def store(block: object, launch: object) -> object:
        """The hook with one more argument."""

    spec: Any = hookspecs.hookspec(firstresult=True)
    monkeypatch.setattr(hookspecs, "store", spec(store))
    zoo.add("plugin", "@hookimpl\ndef store(block):\n    return block")
    assert zoo.load().manager.hook.store(block="block", launch="launch") == "block"
