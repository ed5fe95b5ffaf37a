"""The plugins that a program started from here would load, as data for lists and JSON.

Owns the loading without a context, and the choice of what is told of each plugin. Never logs a fault: the command that
asked shows it. Never imports Spark.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import attrs

from penstock.conf import Settings
from penstock.errors import UnknownNameError
from penstock.launch.launch_conf import conf_here
from penstock.plugins.discovery import KINDS, LoadedPlugin, Plugins
from penstock.plugins.specs import Spec, options_of


def load() -> Plugins:
    """Load what is installed and not disabled.

    Raises:
        ConfigurationError: the configuration here cannot be read.
    """
    disable = Settings.parse(conf_here()).plugins_disable
    # What a plugin prints while it loads is not this command's output.
    with _silent("penstock.plugins"), contextlib.redirect_stdout(sys.stderr):
        return Plugins(disable)


def describe(plugin: LoadedPlugin) -> dict[str, Any]:
    """All but the options, as JSON values."""
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
    """With options: the plugin of a name, and of other plugins what they offer under it.

    Raises:
        UnknownNameError: neither a plugin nor anything that one offers has the name.
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
