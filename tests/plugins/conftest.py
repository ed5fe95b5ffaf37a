"""A zoo of plugins: modules and distributions written into a folder of the test."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path
from textwrap import dedent

import pytest

from penstock.plugins.discovery import LoadedPlugin, Plugins

_HEADER = "import penstock\nfrom penstock import hookimpl\n"

_GOOD = """
heard = []

@hookimpl
def receivers():
    return [penstock.ReceiverSpec("{name}-receiver", dict)]

@hookimpl
def listeners(context):
    return [Listener(context)]

@hookimpl
def onBatchCompleted(batchCompleted):
    heard.append(batchCompleted)

class Listener:
    def __init__(self, context):
        self.context = context

    def onBatchStarted(self, batchStarted):
        pass
"""


class Zoo:
    """Installs plugins that live as long as the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.modules: list[str] = []
        self.entry_points: list[EntryPoint] = []

    def add(self, name: str, source: str = "", target: str = "", distribution: str = "", version: str = "1.0") -> str:
        """Install a plugin, in a distribution of its own; return the name of its module."""
        module = f"zoo_{len(self.modules)}"
        self.modules.append(module)
        (self._folder / f"{module}.py").write_text(_HEADER + dedent(source), encoding="utf-8")
        self.offer(name, f"{module}:{target}" if target else module, distribution or f"dist-{module}", version)
        return module

    def add_good(self, name: str) -> str:
        """Install a plugin that offers the receiver ``<name>-receiver``, a listener, and listens itself."""
        return self.add(name, _GOOD.format(name=name), distribution=f"good-{name}")

    def offer(self, name: str, value: str, distribution: str, version: str = "1.0") -> None:
        """Install a distribution with one entry point."""
        info = self._folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[penstock]\n{name} = {value}\n")
        self.entry_points.extend(PathDistribution(info).entry_points)

    def load(self, disable: Sequence[str] = (), *, strict: bool = False) -> Plugins:
        """Load what is installed here, and nothing else."""
        importlib.invalidate_caches()
        return Plugins(disable, strict=strict, entry_points=self.entry_points)

    def record(self, plugins: Plugins, name: str) -> LoadedPlugin:
        """What became of a plugin."""
        (record,) = (record for record in plugins.loaded if record.name == name)
        return record


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
        offered = [item for item, origin in plugins.listeners("context") if origin.startswith(self.NAMES)]
        assert [getattr(item, "context", "itself") for item in offered] == ["itself", "context"] * 2


@pytest.fixture
def neighbours(zoo: Zoo) -> Neighbours:
    return Neighbours(zoo)
