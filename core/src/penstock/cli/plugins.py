"""``penstock plugins``: what is installed, and what each plugin takes.

Owns the tables. What is in them comes from ``installed``. Quick: no Spark is imported.
"""

from __future__ import annotations

import json
from typing import Any

import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli import installed
from penstock.cli.terminal import terminal

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def plugins() -> None:
    """What is installed, and what each plugin takes."""


@plugins.command("list")
@_as_json
def list_plugins(as_json: bool) -> None:
    """List the plugins."""
    found = [installed.describe(plugin) for plugin in installed.load().loaded]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found:
        terminal().print(overview(found))
    else:
        click.echo("No plugin is installed. Penstock's own come with: pip install penstock-all")


@plugins.command()
@click.argument("name")
@_as_json
def show(name: str, as_json: bool) -> None:
    """Show a plugin or what it offers, with options.

    NAME is a plugin's, or that of a receiver, a rate estimator or an input stream.
    """
    found = installed.describe_fully(installed.load(), name)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        terminal().print(Group(*map(details, found)))


def overview(found: list[dict[str, Any]]) -> RenderableType:
    """The table of ``plugins list``: a row a plugin."""
    table = _table("plugin", "distribution", "version", "offers", "hooks")
    for column in table.columns[:3]:
        column.no_wrap = True
    for plugin in found:
        table.add_row(plugin["name"], plugin["distribution"], plugin["version"], _offers(plugin), _hooks(plugin))
    return table


def details(plugin: dict[str, Any]) -> RenderableType:
    """A plugin as ``plugins show`` tells it: a paragraph about it, one and a table of options for each offer."""
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
