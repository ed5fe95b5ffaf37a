"""``penstock plugins``: the installed plugins and their options, as tables or JSON.

``cli.check`` runs their conformance checks, ``cli.new`` writes a new plugin.

Imports no Spark. A plugin that fails to load is not logged: the commands show it. They load each plugin in a process of
its own first, so that a plugin that hangs or crashes while it loads is shown as left out.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import attrs
import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock import conf
from penstock.cli.check import check
from penstock.cli.new import new
from penstock.cli.shared import terminal
from penstock.conf import Settings
from penstock.errors import UnknownNameError
from penstock.hookspecs import GROUP
from penstock.launch.launch_conf import conf_here
from penstock.plugins.discovery import KINDS, LoadedPlugin, Plugins, additional
from penstock.plugins.specs import fields_of, options_of
from penstock.testing.plugin_probe import probe

#: The longest time that a plugin may take to load.
_LOAD_LIMIT_S = 15.0
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def plugins() -> None:
    """List, show and check the installed plugins; write a new one."""


plugins.add_command(check)
plugins.add_command(new)


@plugins.command("list")
@_as_json
def list_plugins(as_json: bool) -> None:
    """List the installed plugins.

    Exits with 1 if a plugin was left out, for instance because it failed to import.
    """
    found = [describe(plugin) for plugin in load_plugins(isolated=True).loaded]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found:
        terminal().print(overview(found))
    else:
        click.echo("No plugin is installed. Install Penstock's own with: pip install penstock-all")
    if any(plugin["fault"] for plugin in found):
        raise click.exceptions.Exit(1)


@plugins.command()
@click.argument("name")
@_as_json
def show(name: str, as_json: bool) -> None:
    """Show what a plugin offers, with all options.

    NAME is the name of a plugin, a receiver, a rate estimator or an input stream.
    """
    found = describe_named(load_plugins(isolated=True), name)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        terminal().print(Group(*map(details, found)))


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


def describe(plugin: LoadedPlugin, name: str | None = None) -> dict[str, Any]:
    """A plugin as JSON values.

    Args:
        plugin: loaded, disabled or left out.
        name: list only what is offered under this name, with its options; ``None``: everything, without options.
    """
    offers = [
        {"kind": KINDS[hook][0], "name": spec.name, "summary": spec.summary}
        | ({} if name is None else {"options": [attrs.asdict(option) for option in options_of(spec)]})
        for hook, specs in plugin.specs.items()
        for spec in specs
        if name in {None, plugin.name, spec.name}
    ]
    if name == plugin.name:
        for prefix, kind in plugin.options.items():
            options = [attrs.asdict(option) for option in fields_of(kind)]
            offers.append({"kind": "configuration keys", "name": prefix, "summary": "", "options": options})
    return attrs.asdict(plugin, filter=attrs.filters.exclude("plugin", "specs", "options")) | {"offers": offers}


def describe_named(plugins: Plugins, name: str) -> list[dict[str, Any]]:
    """The plugin with this name, and what other plugins offer under it, with options.

    Raises:
        UnknownNameError: no plugin has this name or offers anything under it.
    """
    described = [describe(plugin, name) for plugin in plugins.loaded]
    found = [plugin for plugin in described if plugin["offers"] or plugin["name"] == name]
    if not found:
        known = {spec.name for plugin in plugins.loaded for specs in plugin.specs.values() for spec in specs}
        known |= {plugin.name for plugin in plugins.loaded}
        raise UnknownNameError("plugin, receiver, rate estimator or input stream", name, known)
    return found


def overview(found: list[dict[str, Any]]) -> RenderableType:
    """The table of ``plugins list``, a row for each plugin."""
    table = _table("plugin", "distribution", "version", "offers", "hooks")
    for column in table.columns[:3]:
        column.no_wrap = True
    for plugin in found:
        table.add_row(plugin["name"], plugin["distribution"], plugin["version"], _offers(plugin), _hooks(plugin))
    return table


def details(plugin: dict[str, Any]) -> RenderableType:
    """What ``plugins show`` prints: a paragraph on the plugin, then each offer with a table of its options."""
    heading = Text.assemble(
        (plugin["name"], "bold"),
        f", a plugin of {plugin['distribution']} {plugin['version']} ({plugin['value']})",
        f"; hooks: {_hooks(plugin)}" if plugin["hooks"] else "",
    )
    parts: list[RenderableType] = [heading]
    if not plugin["offers"]:
        parts.append(_offers(plugin))
    for offer in plugin["offers"]:
        parts.append(Text.assemble("\n", offer["kind"], " ", (offer["name"], "bold"), ": ", offer["summary"] or "-"))
        if offer["options"]:
            parts.append(_options(offer["options"]))
        else:
            parts.append("  no options")
    return Group(*parts)


def _options(options: list[dict[str, Any]]) -> Table:
    table = _table("option", "type", "default", "help")
    for option in options:
        default = Text("required", "yellow") if option["default"] is None else Text(option["default"])
        table.add_row(Text(option["name"]), Text(option["type"]), default, Text(option["help"]))
    return table


def _offers(plugin: dict[str, Any]) -> Text:
    if plugin["fault"]:
        return Text(f"left out: {plugin['fault']}", "red")
    if plugin["disabled"]:
        return Text("disabled by spark.penstock.plugins.disable", "yellow")
    by_kind: dict[str, list[str]] = {}
    for offer in plugin["offers"]:
        by_kind.setdefault(offer["kind"], []).append(offer["name"])
    return Text("; ".join(f"{kind} {', '.join(names)}" for kind, names in by_kind.items()))


def _hooks(plugin: dict[str, Any]) -> str:
    return ", ".join(plugin["hooks"])


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


@contextlib.contextmanager
def _silent(logger: str) -> Iterator[None]:
    was = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(was)
