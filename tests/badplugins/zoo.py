"""Bad plugins as data, and ``Zoo``, which installs plugins into a folder: a module and a distribution each."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path
from textwrap import dedent

from attrs import frozen

from penstock.plugins.discovery import LoadedPlugin, Plugins

_HEADER = "import attrs\nimport penstock\nfrom penstock import hookimpl\n"

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

    def add_bad(self, name: str) -> None:
        """Install a plugin of this file."""
        bad = ALL[name]
        if bad.value is None:
            self.add(name, bad.source, bad.target, f"bad-{name}", "2.5")
        else:
            self.offer(name, bad.value, f"bad-{name}", "2.5")

    def add_all(self) -> None:
        """Install every plugin beside which a program can run, good ones around them, a namesake and a rival."""
        self.add_good("aaa")
        for name in SURVIVABLE:
            self.add_bad(name)
        own = "penstock.ReceiverSpec('{name}', dict)".format
        self.add("aaa", _offering(own(name="namesake")), distribution="namesake", version="2.5")
        self.add("rival", _offering(own(name="zzz-receiver"), own(name="rival")), distribution="rival", version="2.5")
        self.add_good("zzz")

    def offer(self, name: str, value: str, distribution: str, version: str = "1.0") -> None:
        """Install a distribution with one entry point."""
        info = self._folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[penstock]\n{name} = {value}\n", encoding="utf-8")
        self.entry_points.extend(PathDistribution(info).entry_points)

    def load(self, disable: Sequence[str] = (), *, strict: bool = False, prefer: Sequence[str] = ()) -> Plugins:
        """Load what is installed here, and nothing else."""
        importlib.invalidate_caches()
        return Plugins(disable, strict=strict, prefer=prefer, entry_points=self.entry_points)

    def record(self, plugins: Plugins, name: str) -> LoadedPlugin:
        """What became of a plugin."""
        (record,) = (record for record in plugins.loaded if record.name == name)
        return record


@frozen
class Bad:
    """A bad plugin.

    Attributes:
        source: its module, after the imports of attrs, penstock and hookimpl.
        words: a part of the reason that is reported.
        target: what the entry point names in the module.
        value: the whole object reference, of a plugin without a module.
    """

    source: str
    words: str
    target: str = ""
    value: str | None = None


def _offering(*specs: str, before: str = "") -> str:
    """A module whose receivers hook returns these specs."""
    return f"{before}\n@hookimpl\ndef receivers():\n    return [{', '.join(specs)}]\n"


_HOOK = "@hookimpl\ndef receivers():\n    "
_R = "penstock.ReceiverSpec('r', dict)"

#: Left out when plugins are loaded, with this reason.
FAULTY: dict[str, Bad] = {
    # at import
    "raises-on-import": Bad("raise RuntimeError('no such library')", "RuntimeError: no such library"),
    "lacks-a-library": Bad("import no_such_library", "No module named 'no_such_library'"),
    "exits-on-import": Bad("raise SystemExit(3)", "SystemExit: 3"),
    "panics-on-import": Bad("class Panic(BaseException): pass\nraise Panic('index out of bounds')", "Panic: index out"),
    "raises-unprintable": Bad(
        "class Mute(Exception):\n    def __str__(self): raise OSError\nraise Mute", "Mute: (no text: OSError)"
    ),
    "does-not-parse": Bad("def :", "SyntaxError"),
    # the entry point
    "lacks-the-attribute": Bad("", "AttributeError", target="missing"),
    "lacks-the-module": Bad("", "No module named 'zoo_that_was_removed'", value="zoo_that_was_removed"),
    "names-nothing": Bad("", "'' is not MODULE or MODULE:ATTRIBUTE", value=""),
    "names-no-attribute": Bad("", "'json:' is not MODULE or MODULE:ATTRIBUTE", value="json:"),
    "Illegal-Name": Bad(_offering(), "'Illegal-Name' is not lowercase ASCII"),
    # what it names
    "is-a-number": Bad("thing = 5", "implements no hook", target="thing"),
    "is-none": Bad("thing = None", "implements no hook", target="thing"),
    "has-no-hookimpl": Bad("def receivers(): return []", "is @penstock.hookimpl missing?"),
    "has-an-unknown-hook": Bad(
        "@hookimpl\ndef recievers(): pass", "unknown hook 'recievers'. Did you mean 'receivers'?"
    ),
    "has-an-unknown-argument": Bad("@hookimpl\ndef onBatchCompleted(batch): pass", "{'batch'}"),
    "has-another-contract": Bad(
        f"penstock_api = '2'\n{_HOOK}return []",
        "version 2 of the plugin contract, but this Penstock supports version 1",
    ),
    "needs-an-argument": Bad("class Plugin:\n    def __init__(self, needed): pass", "TypeError", target="Plugin"),
    "raises-when-made": Bad("class Plugin:\n    def __init__(self): 1 / 0", "ZeroDivisionError", target="Plugin"),
    # what its hooks do
    "hook-raises": Bad(f"{_HOOK}raise OSError('no disk')", "OSError: no disk"),
    "hook-exits": Bad(f"{_HOOK}raise SystemExit('bye')", "SystemExit: bye"),
    "hook-exits-half-way": Bad(f"{_HOOK}yield {_R}\n    raise SystemExit", "SystemExit"),
    "hook-returns-none": Bad(f"{_HOOK}[{_R}]", "its hook receivers returned nothing"),
    "hook-returns-a-number": Bad(f"{_HOOK}return 5", "not iterable"),
    "hook-returns-text": Bad(f"{_HOOK}return 'socket'", "returned 's', not a ReceiverSpec"),
    "hook-returns-another-kind": Bad(_offering("penstock.InputStreamSpec('r', dict)"), "not a ReceiverSpec"),
    # what it offers
    "offers-an-illegal-name": Bad(_offering("penstock.ReceiverSpec('My Receiver', dict)"), "'My Receiver'"),
    "offers-a-number-as-name": Bad(_offering("penstock.ReceiverSpec(5, dict)"), "TypeError"),
    "offers-one-name-twice": Bad(
        _offering(_R, "penstock.ReceiverSpec('r', list)"),
        "its hook receivers offers the receiver 'r' twice",
    ),
    "options-are-no-attrs-class": Bad(
        _offering("penstock.ReceiverSpec('r', dict, dict)"),
        "the options of the receiver 'r' are not an attrs class: <class 'dict'>",
    ),
    "options-are-an-instance": Bad(
        _offering("penstock.ReceiverSpec('r', dict, Options())", before="@attrs.frozen\nclass Options: pass"),
        "the options of the receiver 'r' are not an attrs class: Options()",
    ),
    "option-type-is-unresolvable": Bad(
        _offering("penstock.ReceiverSpec('r', dict, O)", before="@attrs.frozen\nclass O:\n    port: 'Nowhere' = 1"),
        "the options of the receiver 'r' have a type that cannot be resolved: name 'Nowhere' is not defined",
    ),
    "factory-is-not-callable": Bad(
        _offering("penstock.ReceiverSpec('r', 'Factory')"),
        "the factory of the receiver 'r' cannot be called: 'Factory'",
    ),
}

_SPOILS = "@hookimpl\ndef receivers():\n    return [penstock.ReceiverSpec(__name__, dict)]\n"

#: Loaded, but their import changes global state of the process, and with it what later plugins and the program find.
#: The testing kit names the change with these words.
SPOILERS: dict[str, Bad] = {
    "spoils-cwd": Bad(f"import os\nos.chdir('/')\n{_SPOILS}", "the working directory"),
    "spoils-environ": Bad(f"import os\nos.environ.clear()\n{_SPOILS}", "os.environ"),
    "spoils-logging": Bad(
        f"import logging\nlogging.basicConfig(level=5, handlers=[logging.NullHandler()], force=True)\n{_SPOILS}",
        "the level of the root logger",
    ),
    "spoils-search-path": Bad(f"import sys\nsys.path.clear()\n{_SPOILS}", "sys.path"),
    "spoils-signals": Bad(
        f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{_SPOILS}", "the handler of SIGTERM"
    ),
    "spoils-socket-timeout": Bad(
        f"import socket\nsocket.setdefaulttimeout(0.001)\n{_SPOILS}", "the default socket timeout"
    ),
}

#: Loaded, but bad when they are used: as a listener, or as the receiver of the plugin's name.
LATE: dict[str, Bad] = {
    "prints-on-import": Bad(f"print('noise')\n{_SPOILS}", ""),
    "listeners-hook-raises": Bad("@hookimpl\ndef listeners(context): raise OSError('no file')", "OSError: no file"),
    "listeners-hook-exits": Bad("@hookimpl\ndef listeners(context): raise SystemExit('bye')", "SystemExit: bye"),
    "listeners-hook-panics": Bad(
        "@hookimpl\ndef listeners(context): raise BaseException('panic')", "BaseException: panic"
    ),
    "listeners-are-a-number": Bad("@hookimpl\ndef listeners(context): return 5", "not iterable"),
    "listeners-raise-half-way": Bad("@hookimpl\ndef listeners(context): yield 1 / 0", "ZeroDivisionError"),
    "listener-without-callbacks": Bad("@hookimpl\ndef listeners(context): return [5]", "it has no on… method"),
    "listener-raises": Bad(
        "@hookimpl\ndef onBatchCompleted(batchCompleted): raise OSError('not heard')", "listener disabled"
    ),
    "listener-panics": Bad(
        "@hookimpl\ndef onBatchCompleted(batchCompleted): raise BaseException('panic')", "listener disabled"
    ),
    "factory-raises": Bad(
        _offering("penstock.ReceiverSpec('factory-raises', make)", before="def make(): raise OSError('no receiver')"),
        "OSError: no receiver",
    ),
    "constructor-raises": Bad(
        _offering(
            "penstock.ReceiverSpec('constructor-raises', Made)",
            before="class Made(penstock.Receiver):\n    def __init__(self): raise OSError('no receiver')",
        ),
        "OSError: no receiver",
    ),
}

#: Their import ends or blocks the process that loads them. Discovery cannot survive that, so that nothing but the
#: conformance kit's probe loads them: it bounds the import by its time limit. Programs skip such a plugin with
#: ``spark.penstock.plugins.disable``, which does not import it.
FATAL: dict[str, Bad] = {
    "ends-the-process": Bad("import os\nos._exit(7)", "it ended the process with exit status 7"),
    "kills-the-process": Bad(
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "its process was killed by SIGKILL"
    ),
    "hangs-on-import": Bad("import threading\nthreading.Event().wait()", "it did not load within"),
}

ALL = {**FAULTY, **SPOILERS, **LATE, **FATAL}
#: Those beside which a program can run.
SURVIVABLE = [*FAULTY, *LATE]
