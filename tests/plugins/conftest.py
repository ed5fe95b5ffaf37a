"""A zoo of plugins: modules and distributions written into a folder of the test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.badplugins.zoo import Zoo

from penstock.plugins.discovery import Plugins


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Zoo]:
    monkeypatch.syspath_prepend(str(tmp_path))
    zoo = Zoo(tmp_path)
    yield zoo
    for module in zoo.modules:
        sys.modules.pop(module, None)


class Neighbours:
    """Two plugins that work, loaded before and after whatever else there is."""

    NAMES = ("aaa", "zzz")

    def __init__(self, zoo: Zoo) -> None:
        self._zoo = zoo
        self._modules = [zoo.add_good(name) for name in self.NAMES]

    def check(self, plugins: Plugins) -> None:
        """Whatever happened beside them, they work: specs, hooks, listeners."""
        assert [self._zoo.record(plugins, name).fault for name in self.NAMES] == ["", ""]
        for name in self.NAMES:
            assert plugins.spec("receivers", f"{name}-receiver").name == f"{name}-receiver"
        plugins.manager.hook.onBatchCompleted(batchCompleted="event")
        assert [sys.modules[module].heard for module in self._modules] == [["event"], ["event"]]
        offered = [listener for listener in plugins.listeners("context") if listener.origin.startswith(self.NAMES)]
        assert [getattr(listener.target, "context", "itself") for listener in offered] == ["itself", "context"] * 2


@pytest.fixture
def neighbours(zoo: Zoo) -> Neighbours:
    return Neighbours(zoo)
