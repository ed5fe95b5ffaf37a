"""``penstock checkpoint``: shows what a checkpoint directory holds. Imports no Spark and unpickles nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from penstock import PenstockError
from penstock.spi import Checkpoint, iso_time
from penstock_cli.inspection import NOT_READ, Inspection, inspect
from penstock_cli.shared import as_json_option, examples, print_json, terminal

_STYLES = {"yes": "green", "skip": "yellow", "refused": "bold red", "nothing": "yellow"}
# Of many pending batches, the first ones.
_SHOWN = 3


@click.group(epilog=examples(("checkpoint inspect /data/checkpoints", "can a program recover from there?")))
def checkpoint() -> None:
    """Look into a checkpoint directory.

    Programs name one with ssc.checkpoint(DIRECTORY), to recover from it after a failure.
    """


@checkpoint.command(
    "inspect",
    epilog=examples(
        ("checkpoint inspect /data/checkpoints", "what is there, what is damaged, and can a program recover?"),
        ("checkpoint inspect s3://bucket/checkpoints --json", "any storage that Arrow reads, for a script"),
        ("checkpoint inspect hdfs://namenode/checkpoints --verify-blocks", "read all received data as well"),
    ),
)
@click.argument("directory")
@click.option("--verify-blocks", is_flag=True, help="Read each received block and compare its checksum.")
@as_json_option
def inspect_command(directory: str, verify_blocks: bool, as_json: bool) -> None:
    """Show what a checkpoint directory holds.

    Can a program recover from it, and if not, why? Shows the checkpoints, the batches that are pending, the streams,
    the write-ahead logs and the received blocks, and every damage found. DIRECTORY is a path or a URI (file:, hdfs:,
    s3:, gs:, abfs:).

    Changes nothing, and runs no code from the directory: the saved program, which is pickled, is not opened.

    Exits with 1 if there is damage, or nothing to recover from.
    """
    try:
        found = inspect(directory, verifies_blocks=verify_blocks)
    except OSError as error:
        raise PenstockError(
            f"the checkpoint directory {directory!r} cannot be read: {error}. Give this user access to it, or name "
            "another directory"
        ) from error
    if as_json:
        print_json(_as_json(found))
    else:
        _print(found, terminal())
    if found.damage or found.newest is None:
        raise click.exceptions.Exit(1)


def _as_json(found: Inspection) -> dict[str, Any]:
    # Values that listeners have saved may be anything; the configuration may be long.
    values = attrs.asdict(found, filter=lambda attribute, _: attribute.name not in {"listeners", "conf"})
    newest = values["newest"]
    if newest is not None and found.newest is not None:
        newest["format"], newest["listeners"] = Checkpoint.format, sorted(found.newest.listeners)
        newest["pending"] = {str(time_ms): attempts for time_ms, attempts in found.newest.pending.items()}
    return {**values, "not_read": list(NOT_READ)}


def _print(found: Inspection, console: Console) -> None:
    console.print(Text(found.directory, "bold"), soft_wrap=True)
    for heading, text in _lines(found):
        console.print(f"  {heading:<13}{text}", soft_wrap=True)
    for each in found.damage:
        console.print(Text.assemble("  ", ("damage", "yellow"), f"       {each}"), soft_wrap=True)
    console.print(Text.assemble("  recovery     ", (found.reason, _STYLES[found.verdict])), soft_wrap=True)
    if found.newest is not None:
        for each in NOT_READ:
            console.print(f"  not read     {each}", soft_wrap=True, style="dim")


def _lines(found: Inspection) -> Iterator[tuple[str, str]]:
    newest = found.newest
    if newest is not None:
        yield from _of_program(newest)
    if found.checkpoints:
        sound = sum(not each.damage for each in found.checkpoints)
        size = _size(sum(each.num_bytes for each in found.checkpoints))
        used = f", the newest sound one is number {newest.number}" if newest is not None else ""
        yield "checkpoints", f"{sound} sound of {len(found.checkpoints)}, {size}{used}"
    if newest is not None:
        yield from _of_batches(newest)
        yield from _of_streams(newest)
    for log in found.logs:
        lost = f", {log.lost} lost" if log.lost else ""
        size = _size(sum(num_bytes for _name, num_bytes in log.segments))
        yield "log", f"{log.name}: {_count(len(log.segments), 'segment')}, {size}, {_count(log.events, 'event')}{lost}"
    for each in found.blocks:
        missing = f", {each.missing} missing or damaged" if each.missing else ""
        yield (
            "blocks",
            f"stream {each.stream_id}: {_count(each.blocks, 'block')}, {each.records:,} records, "
            f"{_size(each.num_bytes)}; {each.unallocated:,} records in no batch yet; "
            f"{_count(each.files, 'file')}{missing}",
        )


def _of_program(newest: Checkpoint) -> Iterator[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in newest.versions.items())
    yield "application", f"{newest.application!r}, run {newest.run}"
    yield "written", f"{iso_time(newest.written_ms)}, format {newest.format}, by {versions}"
    yield "program", newest.program or "not saved: its own code rebuilds it (spark.penstock.checkpoint.rebuild)"


def _of_batches(newest: Checkpoint) -> Iterator[tuple[str, str]]:
    interval = f"every {newest.batch_interval_ms / 1000:g} s"
    if newest.zero_time_ms < 0:
        yield "batches", f"{interval}; none was generated"
        return
    last = f"from {iso_time(newest.zero_time_ms)}, the last generated is {iso_time(newest.last_time_ms)}"
    yield "batches", f"{interval} {last}"
    pending = sorted(newest.pending.items())
    shown = [f"{iso_time(time_ms)} (begun by {_count(runs, 'run')})" for time_ms, runs in pending]
    more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    yield "pending", f"{len(shown)}: {', '.join(shown[:_SHOWN])}{more}" if shown else "no batch"


def _of_streams(newest: Checkpoint) -> Iterator[tuple[str, str]]:
    for each in newest.inputs:
        rate = f", {each.rate:,.6g} records/s" if each.rate is not None else ""
        position = f", position {each.position}" if each.position is not None else ""
        yield "input", f"stream {each.stream_id}, {each.name} ({each.operation}){rate}{position}"
    for state in newest.states:
        last = f", the newest of batch {iso_time(max(state.files))}" if state.files else ""
        stored = f", state store {state.store}" if state.store else ""
        kept = f"{_count(len(state.files), 'checkpointed RDD')} of {_count(state.num_partitions, 'partition')}"
        yield "state", f"{state.name} ({state.call_site}): {kept}{last}{stored}"
    if newest.listeners:
        yield "listeners", f"values saved by {', '.join(sorted(newest.listeners))}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB" if num_bytes >= 100_000 else f"{num_bytes:,} bytes"
