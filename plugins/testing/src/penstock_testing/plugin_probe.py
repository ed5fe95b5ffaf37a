"""Loads plugins in clean processes and reports the ``Facts``: errors, side effects, duration, offers.

The probe is a process that has imported Penstock, but no plugin and not Spark. It forks for each request, so that a
plugin which hangs, crashes or ends its process affects the fork only. ``probe`` and ``unpickle`` start the probe.
"""

from __future__ import annotations

import atexit
import base64
import importlib.metadata
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import attrs
from attrs import frozen

from penstock.spi import API_VERSION, GROUP, LoadedPlugin, Plugins, summary_of
from penstock_testing.forked import HUNG, in_fork
from penstock_testing.leaks import LeakMeter

#: The step of loading that failed; empty when the plugin loaded.
Step = Literal["", "import", "api", "hooks"]
_START_LIMIT_S = 60.0
_NEEDS_SPARK = {
    *("DStream", "DataFrameStream", "GroupedDataFrameStream", "GroupedDStream", "StateSpec", "StorageLevel"),
    *("StreamingContext", "BatchInput", "BlocksInput", "DStreamGraph", "ForEachDStream", "InputDStream", "Node"),
    *("known_partitions", "node_of", "reason", "MapWithStateDStream", "StateOptions", "StatefulDStream"),
    *("MapPartitionsDStream", "ShuffledDStream", "WindowOptions", "MISSING", "merge_by_key"),
    "operation_of_tags",
}


@frozen
class Facts:
    """The result of loading one entry point.

    Attributes:
        name: the entry point's name.
        value: the entry point's object reference.
        distribution: the distribution that declares it.
        step: the step of loading that failed; empty when it loaded.
        fault: the reason of the failure.
        seconds: duration of the import, without the time that it waited for a processor.
        side_effects: side effects of the import, one line each.
        offers: kind and name of each spec, such as ``("receiver", "socket")``.
        hooks: the hooks that it implements.
    """

    name: str
    value: str
    distribution: str
    step: Step = ""
    fault: str = ""
    seconds: float = 0.0
    side_effects: tuple[str, ...] = ()
    offers: tuple[tuple[str, str], ...] = ()
    hooks: tuple[str, ...] = ()


class _Probe:
    """The client of the probe process. This process and its forks share it; one of them sends requests at a time."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        here = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock_testing.plugin_probe"],
            env={**os.environ, "PYTHONPATH": here},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._end)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        path = [str(Path(entry).absolute()) for entry in sys.path]
        number = os.urandom(8).hex()
        print(json.dumps(request | {"path": path, "number": number}), file=self._process.stdin, flush=True)
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            # An answer with another number is for a fork of this process that was killed meanwhile.
            if answer.pop("number") == number:
                return answer
        raise RuntimeError(f"the probe process ended with status {self._process.wait()}")

    def _end(self) -> None:
        if self._owner == os.getpid():
            self._process.communicate()  # closes its standard input, which ends it


_probe: _Probe | None = None
_known: dict[tuple[str, ...], Facts] = {}


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    global _probe
    if _probe is None:
        _probe = _Probe()
    return _probe.ask(request)


def start_probe() -> None:
    """Start the probe process and wait until it answers."""
    if _probe is None:
        unpickle(pickle.dumps(None), _START_LIMIT_S)


def installed() -> list[LoadedPlugin]:
    """The installed plugins with name, value, distribution and version. Imports none."""
    entry_points = importlib.metadata.entry_points(group=GROUP)
    return [
        LoadedPlugin.of(entry_point) for entry_point in sorted(set(entry_points), key=lambda one: (one.name, one.value))
    ]


def probe(plugin: LoadedPlugin, limit_s: float, *, again: bool = False) -> Facts:
    """Load a plugin alone in a clean process. The answer is cached; ``again`` loads the plugin once more."""
    entry = (plugin.name, plugin.value, plugin.distribution)
    key = (*entry, *sys.path)
    if again or key not in _known:
        decisive = (*entry, *_decisive_path(plugin))
        # A plugin that did not load may lack what a later entry has now.
        if again or decisive not in _known or _known[decisive].step:
            _known[decisive] = _facts(plugin, limit_s)
        _known[key] = _known[decisive]
    return _known[key]


def _decisive_path(plugin: LoadedPlugin) -> list[str]:
    """The search path up to the plugin's distribution: later entries cannot replace its modules."""
    try:
        home = str(importlib.metadata.distribution(plugin.distribution).locate_file(""))
        return sys.path[: sys.path.index(home) + 1]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return sys.path


def _facts(plugin: LoadedPlugin, limit_s: float) -> Facts:
    answer = _ask({"entry": [plugin.name, plugin.value], "limit_s": limit_s})
    facts = Facts(plugin.name, plugin.value, plugin.distribution)
    if "end" in answer:
        return attrs.evolve(facts, step="import", fault=answer["end"])
    offers = tuple((kind, name) for kind, name in answer.pop("offers", ()))
    return attrs.evolve(facts, offers=offers, **{name: _frozen(value) for name, value in answer.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def unpickle(pickled: bytes, limit_s: float) -> str:
    """Unpickle an object in a clean process; return the error, or an empty text for success."""
    answer = _ask({"pickle": base64.b64encode(pickled).decode(), "limit_s": limit_s})
    return str(answer.get("end") or answer["fault"])


# -- in the probe process --


def main() -> None:
    """Answer requests, one line of JSON each, until standard input ends."""
    # Penstock's own modules do not count as a plugin's import time.
    for module in map(import_module, (GROUP, f"{GROUP}.spi")):
        for name in set(dir(module)) - _NEEDS_SPARK:
            getattr(module, name)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            print(json.dumps(_serve(request) | {"number": request["number"]}), flush=True)
        except BrokenPipeError:
            os._exit(0)  # the client has ended


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request in a forked process; ``{"end": reason}`` when the process does not answer."""
    with tempfile.TemporaryDirectory(prefix="penstock-probe-") as folder:
        data, ended = in_fork(lambda: json.dumps(_answer(request, Path(folder))).encode(), request["limit_s"])
        if data is not None:
            answer: dict[str, Any] = json.loads(data)
            return answer
        if ended == HUNG:
            return {"end": f"it did not load within {request['limit_s']:g} s"}
        output = Path(folder, "output").read_text(errors="replace").strip().splitlines()
        end = f"its process {ended}" if "killed" in ended else f"it {ended.replace('ended', 'ended the process')}"
        return {"end": end + (f": {output[-1]}" if output else "")}


def _answer(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Answer in this forked process, with its own folders and output."""
    for name in ("work", "temporary"):
        (folder / name).mkdir()
    os.chdir(folder / "work")
    tempfile.tempdir = str(folder / "temporary")
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path[:] = request["path"]
    if "pickle" in request:
        return _unpickled(base64.b64decode(request["pickle"]))
    return _loaded(folder / "output", *request["entry"])


def _unpickled(pickled: bytes) -> dict[str, Any]:
    try:
        pickle.loads(pickled)
    # Third-party code: every error is reported, here and below.
    except BaseException as error:
        return {"fault": summary_of(error)}
    return {"fault": ""}


def _waited_s() -> float:
    """The seconds for which this thread was ready to run and others ran; 0 where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def _loaded(output: Path, name: str, value: str) -> dict[str, Any]:
    """Load an entry point; return the fields of ``Facts``."""
    entry_point = importlib.metadata.EntryPoint(_any_name(name), value, GROUP)
    before, folder = LeakMeter(), Path.cwd()
    began, waited = time.perf_counter(), _waited_s()
    try:
        target = entry_point.load()
    except BaseException as error:
        return {"step": "import", "fault": summary_of(error)}
    seconds = time.perf_counter() - began - (_waited_s() - waited)
    sys.stdout.flush()
    effects = before.leaks(deadline_s=0)
    if printed := output.read_text(errors="replace"):
        effects.append(f"it printed {printed[:100]!r}")
    if "pyspark" in sys.modules:
        effects.append("pyspark is imported")
    effects += [f"the file {file.name} exists in the working directory" for file in folder.iterdir()]
    facts = {"seconds": seconds, "side_effects": effects}
    api = str(getattr(target, "penstock_api", API_VERSION))
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    (record,) = Plugins(entry_points=[entry_point]).loaded
    if record.fault:
        return facts | {"step": "hooks" if api == API_VERSION else "api", "fault": record.fault}
    offers = [(spec.kind, spec.name) for hook, specs in record.specs.items() for spec in specs]
    return facts | {"offers": offers, "hooks": record.hooks}


def _any_name(name: str) -> str:
    """The name if it is legal, else a replacement: PK-03 finds illegal names without loading the plugin."""
    return name if Plugins.LEGAL_NAME.fullmatch(name) else "illegal"


if __name__ == "__main__":
    main()
