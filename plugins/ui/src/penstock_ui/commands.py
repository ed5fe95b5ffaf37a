"""``penstock top`` and ``status`` show a running application, ``penstock ui`` and ``report`` one that has ended.

``penstock`` imports this module to list its subcommands, so heavy imports wait until a command runs.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from penstock import PenstockError
from penstock.spi import printable


def _examples(*commands: tuple[str, str]) -> str:
    """The end of a help text: commands to copy, each with its description."""
    return "\n".join(["\b", "Examples:", *(f"  # {what}\n  penstock {arguments}" for arguments, what in commands)])


_token = click.option(
    "--token",
    envvar="PENSTOCK_UI_TOKEN",
    default="",
    help="The dashboard's token, unless URL contains it. By default the environment variable PENSTOCK_UI_TOKEN.",
)


@click.command(
    epilog=_examples(
        ("top 'http://127.0.0.1:4050/?token=…'", "a program on this machine"),
        ("top http://driver:4050 --token secret --every 5", "one on another host, every five seconds"),
    )
)
@click.argument("url")
@_token
@click.option(
    "--every", default=1.0, show_default=True, type=click.FloatRange(min=0.1), help="Seconds between updates."
)
@click.option("--count", default=0, type=click.IntRange(min=0), help="End after this many updates. 0: never.")
def top(url: str, token: str, every: float, count: int) -> None:
    """Watch a running application in this terminal.

    URL is the address of its dashboard: the value of ssc.uiWebUrl, with its token.

    Ctrl-C ends it; the exit code is then 0.
    """
    terminal: Any = import_module("penstock_ui.terminal")
    with suppress(KeyboardInterrupt):
        terminal.watch(url, token, every, count)


@click.command(
    epilog=_examples(
        ("status 'http://127.0.0.1:4050/?token=…'", "does the program on this machine run well?"),
        ("status http://127.0.0.1:4050 --json | jq .statistics", "its numbers, for a script with PENSTOCK_UI_TOKEN"),
    )
)
@click.argument("url")
@_token
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def status(url: str, token: str, as_json: bool) -> None:
    """Print the state of a running application.

    URL is the address of its dashboard: the value of ssc.uiWebUrl, with its token.

    Exits with 1 if the last batch failed or a receiver is not active.
    """
    terminal: Any = import_module("penstock_ui.terminal")
    state = terminal.fetch(url, token)
    click.echo(json.dumps(terminal.summary(state), indent=2) if as_json else terminal.rendered(state), nl=as_json)
    if not terminal.is_healthy(state):
        raise SystemExit(1)


@click.command(
    epilog=_examples(
        ("ui /data/event-logs", "the application whose log is there"),
        (
            "ui s3://bucket/event-logs --app app-20261122102556-0003",
            "one of several, in storage that Arrow reads",
        ),
    )
)
@click.argument("log")
@click.option(
    "--app", "application_id", default="", help="Which application, if the directory has the logs of several."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=4050, show_default=True, help="First port to try; 0 for any.")
@click.option(
    "--token",
    default="",
    help="Secret that every request must carry. By default a new one; none: no token, on loopback only.",
)
@click.option("--batches", default=10_000, show_default=True, type=click.IntRange(min=1), help="Batches to show.")
def ui(log: str, application_id: str, host: str, port: int, token: str, batches: int) -> None:
    """Show the dashboard of an application that has ended.

    LOG is the directory of spark.penstock.eventLog.dir, or a file in it; a path or URI.

    Ctrl-C ends it; the exit code is then 0.
    """
    event_log: Any = import_module("penstock_ui.event_log")
    server: Any = import_module("penstock_ui.server")
    access: Any = import_module("penstock_ui.access")
    limits: Any = import_module("penstock_ui.store").Limits(batches=batches)
    try:
        history = event_log.read_history(log, application_id, limits)
        serving = server.UIServer(history, host, port, token=access.Token.of(token))
        serving.start()
    except OSError as error:
        raise PenstockError(f"{log} cannot be shown: {error}") from error
    state = history.snapshot()
    damage = f", {history.damaged} damaged lines skipped" if history.damaged else ""
    click.echo(f"{printable(state.application.name)} ({state.application.id}): {history.events} events{damage}")
    click.echo(f"{serving.address}  Ctrl-C ends")
    try:
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
    finally:
        serving.stop()


@click.command(
    epilog=_examples(
        ("report /data/event-logs", "all of the log, as report.html"),
        (
            "report /data/event-logs --from 2026-11-22T12:00 --to 2026-11-22T12:30 --output incident.html",
            "half an hour, to attach to an incident",
        ),
    )
)
@click.argument("log")
@click.option(
    "--app", "application_id", default="", help="Which application, if the directory has the logs of several."
)
@click.option("--from", "first", default="", help="First batch time, such as 2026-11-22T12:00; local without a zone.")
@click.option("--to", "last", default="", help="Last batch time.")
@click.option("--output", default="report.html", show_default=True, type=click.Path(dir_okay=False), help="The file.")
def report(log: str, application_id: str, first: str, last: str, output: str) -> None:
    """Write a report of a period as one HTML file.

    LOG is the directory of spark.penstock.eventLog.dir, or a file in it; a path or URI.

    It has verdicts, charts, slow batches, errors and the configuration, opens from a disk, and loads nothing. The
    configuration in it has no secrets; error texts may have records.
    """
    event_log: Any = import_module("penstock_ui.event_log")
    reports: Any = import_module("penstock_ui.report")
    try:
        period = reports.Period.of(first, last)
        written = reports.report(event_log.files_of(log, application_id), period)
        data = written.html.encode()
        Path(output).write_bytes(data)
    except OSError as error:
        raise PenstockError(f"the report of {log} cannot be written to {output}: {error}") from error
    damage = f", {written.damaged} damaged lines skipped" if written.damaged else ""
    click.echo(
        f"{output}: {written.batches:,} batches from {written.events:,} events{damage}, {len(data) // 1000:,} kB"
    )
