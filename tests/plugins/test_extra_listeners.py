"""``spark.streaming.extraListeners``: dotted paths and the names of plugins."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.badplugins.zoo import Zoo
from tests.plugins.conftest import Neighbours

from penstock.errors import ConfigurationError, UnknownNameError
from penstock.plugins.extra_listeners import extra_listeners

MODULE = """
class Plain:
    def onBatchCompleted(self, event):
        pass

class WithContext(Plain):
    def __init__(self, context, size=3):
        self.context = context

class Nothing:
    pass

class Fails(Plain):
    def __init__(self):
        raise OSError("no such host")

def make(context):
    return WithContext(context)

made = Plain()
number = 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "of_a_program").mkdir()
    (tmp_path / "of_a_program" / "listening.py").write_text(MODULE)
    (tmp_path / "broken_listening.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("of_a_program.listening")
    for name in ("of_a_program", "of_a_program.listening", "broken_listening"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("path", ["of_a_program.listening.Plain", "of_a_program.listening:Plain"])
def test_class_is_made(module: ModuleType, path: str) -> None:
    (listener,) = extra_listeners([path], (), "the context")
    assert type(listener.target) is module.Plain
    assert listener.origin == path


@pytest.mark.parametrize("name", ["WithContext", "make"])
def test_class_or_function_that_takes_an_argument_gets_the_context(module: ModuleType, name: str) -> None:
    (listener,) = extra_listeners([f"of_a_program.listening.{name}"], (), "the context")
    assert listener.target.context == "the context"  # type: ignore[attr-defined]


def test_object_is_taken_as_it_is_and_once(module: ModuleType) -> None:
    path = "of_a_program.listening.made"
    (listener,) = extra_listeners([path, path], (), None)
    assert listener.target is module.made


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no_such.module.Listener", "ModuleNotFoundError: No module named 'no_such'"),
        ("of_a_program.listening.Lost", "AttributeError: module 'of_a_program.listening' has no attribute 'Lost'"),
        ("of_a_program.listening.Fails", "OSError: no such host"),
        ("broken_listening.Listener", "ZeroDivisionError: division by zero"),
        ("of_a_program.listening.Nothing", "it has none of the methods onCheckpointFailed"),
        ("of_a_program.listening.number", "it has none of the methods onCheckpointFailed"),
        (".Listener", "ValueError: Empty module name"),
    ],
)
def test_path_that_gives_no_listener_is_refused_with_the_reason(path: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"spark.streaming.extraListeners={path}: {reason}")):
        extra_listeners([path], (), None)


def test_name_of_a_plugin_that_offers_listeners_adds_nothing_to_them(zoo: Zoo, neighbours: Neighbours) -> None:
    plugins = zoo.load()
    assert len(plugins.listeners(None, ["aaa"])) == len(plugins.listeners(None))


def test_name_of_no_listener_plugin_is_refused_with_the_nearest(zoo: Zoo, neighbours: Neighbours) -> None:
    with pytest.raises(UnknownNameError) as error:
        zoo.load().listeners(None, ["aab"])
    assert "unknown listener plugin 'aab'. Did you mean 'aaa'?" in str(error.value)
    assert "spark.streaming.extraListeners" in str(error.value)
