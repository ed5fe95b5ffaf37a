"""The installed plugins for the command line: loaded apart from each other, and as names that the shell completes."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator

import click

from penstock import conf
from penstock.conf import Settings
from penstock.hookspecs import GROUP
from penstock.plugins.discovery import LoadedPlugin, Plugins, additional
from penstock.spark.launch_conf import conf_here
from penstock_testing.plugin_probe import probe

#: The longest time that a plugin may take to load.
_LOAD_LIMIT_S = 15.0
#: Called by click with the context, the parameter and what was typed so far.
Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def load_plugins(*, isolated: bool = False) -> Plugins:
    """Load the installed plugins, except those that the configuration disables.

    Args:
        isolated: load each plugin in a process of its own first, and leave out those that cannot be imported there.

    Raises:
        ConfigurationError: ``PYSPARK_SUBMIT_ARGS`` cannot be parsed.
    """
    # This key alone: an invalid value of another one is for the program to refuse.
    key = conf.key("plugins_disable")
    disable = Settings.parse({key: conf_here().get(key, "")}).plugins_disable
    candidates, left_out = {*importlib.metadata.entry_points(group=GROUP), *additional}, []
    for entry_point in sorted(candidates, key=lambda one: (one.name, one.value)) if isolated else ():
        plugin = LoadedPlugin.of(entry_point)
        if plugin.name not in disable and (facts := probe(plugin, _LOAD_LIMIT_S)).step == "import":
            plugin.fault = facts.fault
            left_out.append(plugin)
            candidates.remove(entry_point)
    # Standard output is for this command's result, not for what plugins print while they load.
    with _silent("penstock.plugins"), contextlib.redirect_stdout(sys.stderr):
        plugins = Plugins(disable, entry_points=list(candidates))
    plugins.loaded = sorted([*plugins.loaded, *left_out], key=lambda each: (each.name, each.value))
    return plugins


def completes(names: Callable[[], Iterable[str]]) -> Completion:
    """Let the shell complete an argument with names. When they cannot be found, it completes nothing."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            # What plugins print would be among the names, or on the terminal.
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return sorted({each for each in names() if each.startswith(incomplete)})
        except Exception:
            return []

    return complete


def plugin_names() -> list[str]:
    """Names of the installed plugins, found without loading them."""
    return [entry_point.name for entry_point in importlib.metadata.entry_points(group=GROUP)]


def offered_names(*hooks: str) -> list[str]:
    """Names of what the plugins offer by these hooks; by all without any."""
    plugins = load_plugins()
    offered = [
        spec
        for each in plugins.loaded
        for hook, specs in each.specs.items()
        if hook in (hooks or (hook,))
        for spec in specs
    ]
    return [spec.name for spec in offered]


@contextlib.contextmanager
def _silent(logger: str) -> Iterator[None]:
    was = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(was)
