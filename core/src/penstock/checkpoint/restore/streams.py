"""Where an earlier run's states and positions go in a program that may have changed since.

Owns the comparison, by name, of what a checkpoint holds with what the program has, and what follows from a difference.
Never guesses: where unnamed streams could be meant for each other in several ways, that is a difference, too. Called
before the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from penstock.checkpoint.manifest import Checkpoint, SavedInput, SavedTable
from penstock.checkpoint.restore_points import starting_points
from penstock.checkpoint.stream_names import is_automatic, named
from penstock.errors import CheckpointError
from penstock.runtime.log import get_logger

if TYPE_CHECKING:
    from penstock.graph.dstream_graph import DStreamGraph
    from penstock.graph.table import TableDStream
    from penstock.spark.checkpoint import RunFolder

log = get_logger("checkpoint")


@frozen
class _Difference:
    """Something saved that the program has no place for, or that two places claim."""

    what: str


def reattach(graph: DStreamGraph, checkpoint: Checkpoint, folder: RunFolder, *, drops: bool) -> int | None:
    """Give the streams of a graph what a checkpoint holds for them.

    Args:
        graph: of a program that has not started.
        checkpoint: to go on from.
        folder: of this run, which says where the directory is now.
        drops: go on without what has no place; it is told.

    Returns:
        The batch behind which states are made again; ``None`` when nothing is carried on.

    Raises:
        CheckpointError: something has no place, and is not to be dropped; says what, and what to do.
        ConfigurationError: two streams have the same name.
    """
    tables: dict[str, TableDStream] = named(graph.tables(), graph.streams())
    inputs: dict[str, Any] = named(graph.inputs, [*graph.inputs, *graph.streams()])
    differences: list[_Difference] = []
    matched = _match(checkpoint.tables, tables, "the state of", differences)
    placed: list[tuple[SavedTable, TableDStream]] = []
    for saved, table in matched:
        difference = _placement(saved, table)
        if difference is None:
            placed.append((saved, table))
        else:
            differences.append(difference)
    sources = _match(checkpoint.inputs, inputs, "the position of", differences)
    if differences:
        _tell(differences, checkpoint, tables, drops=drops)
    points = starting_points(checkpoint, graph, {table.number: saved for saved, table in placed})
    for saved, table in placed:
        if points.files[saved.name]:
            files = {time_ms: f"{folder.uri}/{name}" for time_ms, name in points.files[saved.name].items()}
            table.go_on_from(files, saved.num_partitions, f"{folder.path}/{saved.home}" if saved.home else "")
    _number(graph, checkpoint, sources)
    for saved_input, stream in sources:
        if saved_input.position is not None and hasattr(stream, "go_on_from"):
            stream.go_on_from(saved_input.position)
    return points.oldest_ms


def _match(
    saved: Iterable[Any], present: Mapping[str, Any], what: str, differences: list[_Difference]
) -> list[tuple[Any, Any]]:
    saved = list(saved)
    matched: list[tuple[Any, Any]] = []
    for operation in dict.fromkeys(each.operation for each in saved):
        said = {name for name, stream in present.items() if stream.name is not None}
        before = [
            each.name
            for each in saved
            if each.operation == operation and is_automatic(each.name, operation) and each.name not in said
        ]
        here = {name: stream for name, stream in present.items() if stream.call_site.operation == operation}
        now = [name for name, stream in here.items() if stream.name is None]
        ambiguous = bool(before) and len(before) != len(now) and bool(now)
        for each in (each for each in saved if each.operation == operation):
            stream = present.get(each.name)
            if ambiguous and each.name in before:
                differences.append(
                    _Difference(
                        f"{what} {each.name}: {len(before)} unnamed {operation} there, {len(now)} here. Which of them "
                        f"is meant? Say .setName({each.name!r}) to it"
                    )
                )
            elif stream is None:
                differences.append(_Difference(f"{what} {each.name} has no place: no {operation} has that name here"))
            elif stream.call_site.operation != operation:
                differences.append(
                    _Difference(
                        f"{what} {each.name} was a {operation}'s, and here a {stream.call_site.operation} has that name"
                    )
                )
            else:
                matched.append((each, stream))
    return matched


def _placement(saved: SavedTable, table: TableDStream) -> _Difference | None:
    if saved.partitioned_by == function_name(table.partition_function):
        return None
    return _Difference(
        f"the state of {saved.name} is partitioned by {saved.partitioned_by}, and would be by "
        f"{function_name(table.partition_function)}: keys would be looked for where they are not"
    )


def function_name(function: Any) -> str:
    """A function's full name."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _number(graph: DStreamGraph, checkpoint: Checkpoint, sources: list[tuple[SavedInput, Any]]) -> None:
    """Have inputs keep the numbers by which their blocks are known; new ones get numbers that no other had."""
    next_id = max([checkpoint.next_stream_id, *(saved.stream_id + 1 for saved in checkpoint.inputs)])
    ids = {stream.number: saved.stream_id for saved, stream in sources}
    for stream in graph.inputs:
        if stream.number in ids:
            stream.id = ids[stream.number]
        else:
            stream.id, next_id = next_id, next_id + 1


def _tell(differences: list[_Difference], checkpoint: Checkpoint, tables: Mapping[str, Any], *, drops: bool) -> None:
    lines = "; ".join(difference.what for difference in differences)
    known = ", ".join(each.name for each in checkpoint.tables) or "none"
    here = ", ".join(tables) or "none"
    if drops:
        log.error("parts of the checkpoint are dropped", differences=lines, number=checkpoint.number)
        return
    raise CheckpointError(
        f"the program does not fit checkpoint {checkpoint.number}: {lines}. Stateful streams there: {known}; here: "
        f"{here}. Name streams with setName to keep their state, or go on without what does not fit: "
        "spark.penstock.checkpoint.onMismatch=drop-state"
    )
