"""``penstock checkpoint``: shows the content of a checkpoint directory. Imports no Spark and unpickles nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from penstock import PenstockError
from penstock.spi import Checkpoint, printable
from penstock_cli.inspection import NOT_READ, Inspection, inspect
from penstock_cli.shared import as_json_option, examples, print_json, terminal

_STYLES = {"yes": "green", "skip": "yellow", "refused": "bold red", "nothing": "yellow"}
# The number of pending batches to list.
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
    """Show the content of a checkpoint directory.

    Can a program recover from it, and if not, why? Shows the checkpoints, the batches that are pending, the streams,
    the write-ahead logs and the received blocks, and every damage found. DIRECTORY is a path or a URI (file:, hdfs:,
    s3:, gs:, abfs:).

    Changes nothing, and runs no code from the directory: the saved program, which is pickled, is not opened.

    Exits with 1 if there is damage, or nothing to recover from.
    """
    try:
        inspection = inspect(directory, verifies_blocks=verify_blocks)
    except OSError as error:
        raise PenstockError(
            f"the checkpoint directory {directory!r} cannot be read: {error}. Give this user access to it, or name "
            "another directory"
        ) from error
    if as_json:
        print_json(_as_json(inspection))
    else:
        _print(inspection, terminal())
    if inspection.damage or inspection.newest is None:
        raise click.exceptions.Exit(1)


def _as_json(inspection: Inspection) -> dict[str, Any]:
    # Listeners can save values of any type, and the configuration may be long.
    values = attrs.asdict(inspection, filter=lambda attribute, _: attribute.name not in {"listeners", "conf"})
    newest = values["newest"]
    if newest is not None and inspection.newest is not None:
        newest["format"], newest["listeners"] = Checkpoint.format, sorted(inspection.newest.listeners)
        newest["pending"] = {str(time_ms): attempts for time_ms, attempts in inspection.newest.pending.items()}
    return {**values, "not_read": list(NOT_READ)}


def _print(inspection: Inspection, console: Console) -> None:
    console.print(Text(inspection.directory, "bold"), soft_wrap=True)
    for heading, text in _lines(inspection):
        console.print(f"  {heading:<13}{printable(text)}", soft_wrap=True)
    for damage in inspection.damage:
        console.print(Text.assemble("  ", ("damage", "yellow"), f"       {damage}"), soft_wrap=True)
    console.print(Text.assemble("  recovery     ", (inspection.reason, _STYLES[inspection.verdict])), soft_wrap=True)
    if inspection.newest is not None:
        for omission in NOT_READ:
            console.print(f"  not read     {omission}", soft_wrap=True, style="dim")


def _lines(inspection: Inspection) -> Iterator[tuple[str, str]]:
    newest = inspection.newest
    if newest is not None:
        yield from _of_program(newest)
    if inspection.checkpoints:
        sound = sum(not checkpoint.damage for checkpoint in inspection.checkpoints)
        size = _size(sum(checkpoint.num_bytes for checkpoint in inspection.checkpoints))
        used = f", the newest sound one is number {newest.number}" if newest is not None else ""
        yield "checkpoints", f"{sound} sound of {len(inspection.checkpoints)}, {size}{used}"
    if newest is not None:
        yield from _of_batches(newest)
        yield from _of_streams(newest)
    for log in inspection.logs:
        lost = f", {log.lost} lost" if log.lost else ""
        size = _size(sum(num_bytes for _name, num_bytes in log.segments))
        yield "log", f"{log.name}: {_count(len(log.segments), 'segment')}, {size}, {_count(log.events, 'event')}{lost}"
    for stream in inspection.blocks:
        missing = f", {stream.missing} missing or damaged" if stream.missing else ""
        yield (
            "blocks",
            f"stream {stream.stream_id}: {_count(stream.blocks, 'block')}, {stream.records:,} records, "
            f"{_size(stream.num_bytes)}; {stream.unallocated:,} records in no batch yet; "
            f"{_count(stream.files, 'file')}{missing}",
        )


def _of_program(newest: Checkpoint) -> Iterator[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in newest.versions.items())
    yield "application", f"{newest.application!r}, run {newest.run}"
    yield "written", f"{_iso_time(newest.written_ms)}, format {newest.format}, by {versions}"
    yield "program", newest.program or "not saved: its own code rebuilds it (spark.penstock.checkpoint.rebuild)"


def _of_batches(newest: Checkpoint) -> Iterator[tuple[str, str]]:
    interval = f"every {newest.batch_interval_ms / 1000:g} s"
    if newest.zero_time_ms < 0:
        yield "batches", f"{interval}; none was generated"
        return
    last = f"from {_iso_time(newest.zero_time_ms)}, the last generated is {_iso_time(newest.last_time_ms)}"
    yield "batches", f"{interval} {last}"
    pending = sorted(newest.pending.items())
    batches = [f"{_iso_time(time_ms)} (begun by {_count(runs, 'run')})" for time_ms, runs in pending]
    more = f", and {len(batches) - _SHOWN} more" if len(batches) > _SHOWN else ""
    yield "pending", f"{len(batches)}: {', '.join(batches[:_SHOWN])}{more}" if batches else "no batch"
    if newest.failed:
        yield "failed", f"{len(newest.failed)} of these, which run again, the oldest {_iso_time(min(newest.failed))}"
    for late in newest.late:
        count = len(late.times(newest.batch_interval_ms))
        yield "late", f"{count:,} of a downtime, from {_iso_time(late.first_ms)} to {_iso_time(late.last_ms)}"


def _of_streams(newest: Checkpoint) -> Iterator[tuple[str, str]]:
    for input_ in newest.inputs:
        rate = f", {input_.rate:,.6g} records/s" if input_.rate is not None else ""
        position = f", position {input_.position}" if input_.position is not None else ""
        yield "input", f"stream {input_.stream_id}, {input_.name} ({input_.operation}){rate}{position}"
    for state in newest.states:
        last = f", the newest of batch {_iso_time(max(state.files))}" if state.files else ""
        stored = f", state store {state.store}" if state.store else ""
        kept = f"{_count(len(state.files), 'checkpointed RDD')} of {_count(state.num_partitions, 'partition')}"
        yield "state", f"{state.name} ({state.call_site}): {kept}{last}{stored}"
    if newest.listeners:
        yield "listeners", f"values saved by {', '.join(sorted(newest.listeners))}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB" if num_bytes >= 100_000 else f"{num_bytes:,} bytes"


def _iso_time(time_ms: int) -> str:
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
