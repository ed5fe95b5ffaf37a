"""The plugins that a program started here would load, as JSON values for tables and ``--json``.

Imports no Spark. A plugin that fails to load is not logged: the command shows it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import attrs

from penstock import conf
from penstock.conf import Settings
from penstock.errors import UnknownNameError
from penstock.launch.launch_conf import conf_here
from penstock.plugins.discovery import KINDS, LoadedPlugin, Plugins
from penstock.plugins.specs import Spec, options_of


def load() -> Plugins:
    """Load the installed plugins, except those that the configuration disables.

    Raises:
        ConfigurationError: ``PYSPARK_SUBMIT_ARGS`` cannot be parsed.
    """
    # This key alone: an invalid value of another one is for the program to refuse.
    key = conf.key("plugins_disable")
    disable = Settings.parse({key: conf_here().get(key, "")}).plugins_disable
    # Standard output is for this command's result, not for what plugins print while they load.
    with _silent("penstock.plugins"), contextlib.redirect_stdout(sys.stderr):
        return Plugins(disable)


def describe(plugin: LoadedPlugin) -> dict[str, Any]:
    """A plugin without its options."""
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "value": plugin.value,
        "offers": [
            {"kind": KINDS[hook][0], "name": spec.name, "summary": spec.summary}
            for hook, specs in plugin.specs.items()
            for spec in specs
        ],
        "hooks": plugin.hooks,
        "fault": plugin.fault,
        "disabled": plugin.disabled,
    }


def describe_fully(plugins: Plugins, name: str) -> list[dict[str, Any]]:
    """The plugin with this name, and what other plugins offer under it, with options.

    Raises:
        UnknownNameError: no plugin has this name or offers anything under it.
    """
    found = []
    for plugin in plugins.loaded:
        offered = [
            {"kind": KINDS[hook][0], "name": spec.name, "summary": spec.summary, "options": _options(spec)}
            for hook, specs in plugin.specs.items()
            for spec in specs
            if name in {plugin.name, spec.name}
        ]
        if offered or plugin.name == name:
            found.append({**describe(plugin), "offers": offered})
    if not found:
        known = {spec.name for plugin in plugins.loaded for specs in plugin.specs.values() for spec in specs}
        known |= {plugin.name for plugin in plugins.loaded}
        raise UnknownNameError("plugin, receiver, rate estimator or input stream", name, known)
    return found


def _options(spec: Spec) -> list[dict[str, Any]]:
    return [attrs.asdict(option) for option in options_of(spec)]


@contextlib.contextmanager
def _silent(logger: str) -> Iterator[None]:
    was = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(was)
