"""``penstock plugins``: the installed plugins and their options, as tables or JSON.

``check`` runs their conformance checks, ``new`` writes a new plugin.

Imports no Spark. A plugin that fails to load is not logged: the commands show it. Each plugin is loaded in a process of
its own first, so that a plugin that hangs or crashes while it loads is shown as left out.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs
import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.spi import LoadedPlugin, Option, Plugins, UnknownNameError
from penstock_cli.installed import completes, load_plugins, offered_names, plugin_names
from penstock_cli.new import new
from penstock_cli.shared import as_json_option, examples, from_testing, print_json, terminal


@click.group(
    epilog=examples(
        ("plugins list", "what is installed, and what was left out"),
        ("plugins show socket", "the options of the receiver socket"),
        ("plugins new receiver weather", "begin a receiver plugin of your own"),
        ("plugins check weather", "test it"),
    )
)
def plugins() -> None:
    """List, show, check and write plugins.

    A plugin is a Python package that offers receivers, input streams, rate estimators or listeners. Penstock finds it
    as soon as it is installed with pip.
    """


plugins.add_command(from_testing("check"))
plugins.add_command(new)


@plugins.command(
    "list", epilog=examples(("plugins list", "a table"), ("plugins list --json | jq '.[].name'", "the names alone"))
)
@as_json_option
def list_plugins(as_json: bool) -> None:
    """List the installed plugins and what they offer.

    A plugin that does not load is listed with the reason, and programs run without it. A name that several plugins
    offer is refused when a program uses it. In both cases the exit code is 1.
    """
    plugins = load_plugins(isolated=True)
    descriptions = [describe(plugin) for plugin in plugins.loaded]
    if as_json:
        print_json(descriptions)
    elif descriptions:
        terminal().print(overview(descriptions))
    else:
        click.echo("No plugin is installed. Install Penstock's own with: pip install penstock-spark")
    left_out, clashes = [plugin["name"] for plugin in descriptions if plugin["fault"]], plugins.clashes()
    for clash in clashes:
        click.echo(f"penstock: {clash}", err=True)
    if left_out:
        click.echo(f"penstock: left out: {', '.join(left_out)}; to find out why: penstock plugins check NAME", err=True)
    if left_out or clashes:
        raise click.exceptions.Exit(1)


@plugins.command(
    epilog=examples(
        ("plugins show socket", "the receivers of a plugin, with all options"),
        ("plugins show pid", "the options of a rate estimator"),
    )
)
@click.argument("name", shell_complete=completes(lambda: [*plugin_names(), *offered_names()]))
@as_json_option
def show(name: str, as_json: bool) -> None:
    """Show what a plugin offers, with all options.

    NAME is the name of a plugin, a receiver, a rate estimator, an input stream or a listener.
    """
    descriptions = describe_named(load_plugins(isolated=True), name)
    if as_json:
        print_json(descriptions)
    else:
        terminal().print(Group(*map(details, descriptions)))


def describe(plugin: LoadedPlugin, name: str | None = None) -> dict[str, Any]:
    """A plugin as JSON values.

    Args:
        plugin: loaded, disabled or left out.
        name: list only what is offered under this name, with its options; ``None``: everything, without options.
    """
    offers = [
        {"kind": spec.kind, "name": spec.name, "summary": spec.summary}
        | ({} if name is None else {"options": [attrs.asdict(option) for option in Option.of(spec.options)]})
        for hook, specs in plugin.specs.items()
        for spec in specs
        if name in {None, plugin.name, spec.name}
    ]
    offers += [
        {"kind": "listener", "name": listener, "summary": ""} | ({} if name is None else {"options": []})
        for listener in listener_names(plugin)
        if name in {None, plugin.name, listener}
    ]
    if name == plugin.name:
        for prefix, kind in plugin.options.items():
            options = [attrs.asdict(option) for option in Option.of(kind)]
            offers.append({"kind": "configuration keys", "name": prefix, "summary": "", "options": options})
    return attrs.asdict(plugin, filter=attrs.filters.exclude("plugin", "specs", "options")) | {"offers": offers}


def listener_names(plugin: LoadedPlugin) -> list[str]:
    """The names of a plugin's listeners.

    The hook ``listeners`` can only be called with a running context, so the names are the classes in its return
    annotation. Listeners without one, and a plugin that is itself a listener, have the plugin's name.
    """
    names: list[str] = []
    if "listeners" in plugin.hooks:
        annotation = getattr(getattr(plugin.plugin, "listeners", None), "__annotations__", {}).get("return", "")
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        classes = (path.rpartition(".")[2] for path in re.findall(r"[\w.]+", text.partition("[")[2]))
        names = [name for name in classes if name not in {"Any", "None", "object"}] or [plugin.name]
    if any(hook.startswith("on") for hook in plugin.hooks):
        names.append(plugin.name)
    return list(dict.fromkeys(names))


def describe_named(plugins: Plugins, name: str) -> list[dict[str, Any]]:
    """The plugin with this name, and what other plugins offer under it, with options.

    Raises:
        UnknownNameError: no plugin has this name or offers anything under it.
    """
    described = [describe(plugin, name) for plugin in plugins.loaded]
    matches = [plugin for plugin in described if plugin["offers"] or plugin["name"] == name]
    if not matches:
        registered_names = {spec.name for plugin in plugins.loaded for specs in plugin.specs.values() for spec in specs}
        registered_names |= {plugin.name for plugin in plugins.loaded}
        registered_names |= {listener for plugin in plugins.loaded for listener in listener_names(plugin)}
        raise UnknownNameError("plugin, receiver, rate estimator, input stream or listener", name, registered_names)
    return matches


def overview(descriptions: list[dict[str, Any]]) -> RenderableType:
    """The table of ``plugins list``, a row for each plugin."""
    table = _table("plugin", "distribution", "version", "offers", "hooks")
    for column in table.columns[:3]:
        column.no_wrap = True
    for plugin in descriptions:
        table.add_row(plugin["name"], plugin["distribution"], plugin["version"], _offers(plugin), _hooks(plugin))
    return table


def details(plugin: dict[str, Any]) -> RenderableType:
    """The output of ``plugins show``: a paragraph on the plugin, then each offer with a table of its options."""
    heading = Text.assemble(
        (plugin["name"], "bold"),
        f", a plugin of {plugin['distribution']} {plugin['version']} ({plugin['value']})",
        f"; hooks: {_hooks(plugin)}" if plugin["hooks"] else "",
    )
    parts: list[RenderableType] = [heading]
    if not plugin["offers"]:
        parts.append(_offers(plugin))
    for offer in plugin["offers"]:
        summary = f": {offer['summary']}" if offer["summary"] else ""
        parts.append(Text.assemble("\n", offer["kind"], " ", (offer["name"], "bold"), summary))
        if offer["options"]:
            parts.append(_options(offer["options"]))
        elif offer["kind"] != "listener":
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
