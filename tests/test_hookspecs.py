"""The plugin contract, as other code relies on it."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from penstock import StreamingListener, hookimpl, hookspecs
from penstock.listen.events import HOOK_OF
from penstock.plugins.discovery import Plugins

HOOKS: dict[str, Callable[..., Any]] = {
    name: value
    for members in (hookspecs, StreamingListener)
    for name, value in vars(members).items()
    if hasattr(value, "penstock_spec")
}


def test_these_are_the_hooks() -> None:
    assert set(HOOKS) == {*Plugins.KINDS, "listeners", "store", "dataframes", "columns", "state", *HOOK_OF.values()}


@pytest.mark.parametrize("hook", sorted(HOOK_OF.values()))
def test_a_hook_for_events_takes_what_the_listener_class_takes(hook: str) -> None:
    argument = hook[2].lower() + hook[3:]
    assert getattr(Plugins(entry_points=[]).manager.hook, hook).spec.argnames == (argument,)
    assert list(inspect.signature(getattr(StreamingListener, hook)).parameters) == ["self", argument]


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_every_hook_says_what_it_is_for(hook: str) -> None:
    assert HOOKS[hook].__doc__


def test_one_plugin_answers_for_a_block_dataframes_columns_and_state() -> None:
    firstresult = {
        hook
        for hook, spec in HOOKS.items()
        if getattr(spec, "penstock_spec")["firstresult"]  # noqa: B009  # pluggy's mark on a function
    }
    assert firstresult == {"store", "dataframes", "columns", "state"}


def test_an_implementation_is_marked_for_penstock() -> None:
    @hookimpl
    def receivers() -> list[object]:
        return []

    assert hasattr(receivers, "penstock_impl")
