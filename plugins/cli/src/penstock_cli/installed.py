"""The installed plugins for the command line: loaded apart from each other, and as names that the shell completes."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import click

from penstock.spi import GROUP, KEYS, LoadedPlugin, Plugins, Settings, conf_here

#: The longest time that a plugin may take to load.
_LOAD_LIMIT_S = 15.0
# Characters of a plugin's output that are kept: enough for its last line.
_OUTPUT_BYTES = 4096
#: Called by click with the context, the parameter and what was typed so far.
Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def load_plugins(*, isolated: bool = False) -> Plugins:
    """Load the installed plugins, except those that the configuration disables.

    Args:
        isolated: load each plugin in its own process first, and leave out plugins that end or block it.

    Raises:
        ConfigurationError: ``PYSPARK_SUBMIT_ARGS`` cannot be parsed.
    """
    # Read only these keys: the program itself reports invalid values of other keys.
    conf, keys = conf_here(), [KEYS[name].name for name in ("plugins_disable", "plugins_prefer")]
    settings = Settings.parse({key: conf[key] for key in keys if key in conf})
    disable = settings.plugins_disable
    candidates, left_out = {*importlib.metadata.entry_points(group=GROUP), *Plugins.additional_entry_points}, []
    for entry_point in sorted(candidates, key=lambda one: (one.name, one.value)) if isolated else ():
        plugin = LoadedPlugin.of(entry_point)
        if plugin.name not in disable and (fault := _fatal_fault(entry_point, _LOAD_LIMIT_S)):
            plugin.fault = fault
            left_out.append(plugin)
            candidates.remove(entry_point)
    # Standard output is for this command's result, not for what plugins print while they load.
    with _silent("penstock.plugins"), contextlib.redirect_stdout(sys.stderr):
        plugins = Plugins(disable, prefer=settings.plugins_prefer, entry_points=list(candidates))
    plugins.loaded = sorted([*plugins.loaded, *left_out], key=lambda plugin: (plugin.name, plugin.value))
    return plugins


def completes(names: Callable[[], Iterable[str]]) -> Completion:
    """Let the shell complete an argument with names. When they cannot be found, it completes nothing."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            # Output of plugins would appear among the names, or on the terminal.
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return sorted({name for name in names() if name.startswith(incomplete)})
        except Exception:
            return []

    return complete


def plugin_names() -> list[str]:
    """Names of the installed plugins, found without loading them."""
    return [entry_point.name for entry_point in importlib.metadata.entry_points(group=GROUP)]


def offered_names(*hooks: str) -> list[str]:
    """Names of the components that the plugins offer by these hooks; by all hooks if none is passed."""
    plugins = load_plugins()
    offered = [
        spec
        for plugin in plugins.loaded
        for hook, specs in plugin.specs.items()
        if hook in (hooks or (hook,))
        for spec in specs
    ]
    return [spec.name for spec in offered]


def _fatal_fault(entry_point: importlib.metadata.EntryPoint, limit_s: float) -> str:
    """Message for a plugin that ends or blocks the process that loads it; empty for any other plugin."""
    output, writes_output = os.pipe()
    result, writes_result = os.pipe()
    pid = os.fork()
    if pid == 0:
        _load_in_fork(entry_point, writes_output, writes_result)
    for descriptor in (writes_output, writes_result):
        os.close(descriptor)
    # The result is a byte when the plugin is loaded, and the end of the pipe when the process has ended.
    deadline, printed, ready = time.monotonic() + limit_s, b"", [output]
    while ready and result not in ready:
        ready, _, _ = select.select([output, result], [], [], max(0.0, deadline - time.monotonic()))
        if output in ready:
            printed = (printed + os.read(output, 65536))[-_OUTPUT_BYTES:]
    is_loaded = result in ready and os.read(result, 1) != b""
    if is_loaded or not ready:
        os.kill(pid, signal.SIGKILL)
    for descriptor in (output, result):
        os.close(descriptor)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if is_loaded:
        return ""
    if not ready:
        return f"it did not load within {limit_s:g} s"
    end = f"its process was killed by {signal.Signals(-status).name}" if status < 0 else ""
    lines = printed.decode(errors="replace").strip().splitlines()[-1:]
    return ": ".join([end or f"it ended the process with exit status {status}", *lines])


def _load_in_fork(entry_point: importlib.metadata.EntryPoint, output: int, result: int) -> NoReturn:
    """Load a plugin in this forked process, and report that the process is still alive."""
    try:
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        logging.getLogger("penstock").setLevel(logging.CRITICAL)
        Plugins(entry_points=[entry_point])
        os.write(result, b"1")
        # The parent ends this process: threads and exit handlers of the plugin do not run.
        time.sleep(_LOAD_LIMIT_S)
    finally:
        os._exit(1)


@contextlib.contextmanager
def _silent(logger: str) -> Iterator[None]:
    was = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(was)
