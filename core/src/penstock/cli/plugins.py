"""``penstock plugins``: the installed plugins and their options, as tables or JSON. Imports no Spark."""

from __future__ import annotations

import json
from typing import Any

import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli import installed
from penstock.cli.shared import terminal

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def plugins() -> None:
    """List the installed plugins and their options."""


@plugins.command("list")
@_as_json
def list_plugins(as_json: bool) -> None:
    """List the installed plugins.

    Exits with 1 if a plugin was left out, for instance because it failed to import.
    """
    found = [installed.describe(plugin) for plugin in installed.load().loaded]
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
    found = installed.describe_fully(installed.load(), name)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        terminal().print(Group(*map(details, found)))


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
