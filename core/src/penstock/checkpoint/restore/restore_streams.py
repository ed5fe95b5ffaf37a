"""Restores the states and source positions of a checkpoint in the streams of a program that may have changed.

The checkpoint's streams are matched with the program's by name, and every difference is reported. Unnamed streams that
could be matched in several ways are a difference too.

A state starts from a restore point, an RDD that an earlier run checkpointed. A stateful stream computes nothing older
than an RDD that it already has. Therefore an RDD cannot be used if it is younger than a batch that will be generated
again, than the start of a window over it, or than the restore point of a state that is computed from it. After a failed
batch that runs again, the state continues from a younger restore point, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from penstock.checkpoint.checkpoint_format import Checkpoint, SavedState
from penstock.checkpoint.stream_names import assign, function_name, is_automatic
from penstock.errors import CheckpointError
from penstock.graph.input_dstreams import PulledInputDStream
from penstock.graph.stateful import StatefulDStream
from penstock.runtime.log import get_logger
from penstock.storage.uri import location_of_hadoop

if TYPE_CHECKING:
    from penstock.graph.dstream_graph import DStreamGraph
    from penstock.graph.node import Node
    from penstock.spark.rdd_files import RunFolder

log = get_logger("checkpoint")


def restore_streams(
    graph: DStreamGraph, checkpoint: Checkpoint, folder: RunFolder, *, drops: bool
) -> list[RestorePoints]:
    """Restore states, ids and positions of a graph's streams, and return the restore points of the states, in order.

    ``folder`` names the current location of the checkpoint directory. With ``drops`` mismatches are logged as errors,
    otherwise refused, with the remedy.
    """
    streams: dict[str, StatefulDStream] = assign(graph.stateful_streams(), graph.streams())
    inputs: dict[str, Any] = assign(graph.inputs, [*graph.inputs, *graph.streams()])
    differences: list[str] = []
    matched: list[tuple[SavedState, StatefulDStream]] = []
    for saved, stream in _match(checkpoint.states, streams, "the state of", differences):
        partitioned_by = function_name(stream.partition_function)
        if saved.partitioned_by == partitioned_by:
            matched.append((saved, stream))
        else:
            differences.append(
                f"the state of {saved.name} is partitioned by {saved.partitioned_by} and the program partitions by "
                f"{partitioned_by}, so keys would not be found"
            )
    sources = _match(checkpoint.inputs, inputs, "the position of", differences)
    if differences:
        _report(differences, checkpoint, streams, drops=drops)
    points = restore_sequence(checkpoint, graph, {saved.name: stream for saved, stream in matched})
    for saved, stream in matched:
        chosen = {time_ms: name for point in points for time_ms, name in point.files[saved.name].items()}
        if chosen:
            files = {time_ms: f"{folder.uri}/{name}" for time_ms, name in chosen.items()}
            store = f"{location_of_hadoop(folder.uri)}/{saved.store}" if saved.store else ""
            stream.recover(files, saved.num_partitions, store)
            stream.restore(points[0].files[saved.name])
    # The stream ids are in the names of blocks; new inputs get ids that no input has had.
    new_ids = count(max([checkpoint.next_stream_id, *(saved.stream_id + 1 for saved in checkpoint.inputs)]))
    ids = {stream.number: saved.stream_id for saved, stream in sources}
    for stream in graph.inputs:
        stream.id = ids[stream.number] if stream.number in ids else next(new_ids)
    for saved_input, stream in sources:
        if saved_input.position is not None and isinstance(stream, PulledInputDStream):
            stream.recover_from(saved_input.position)
    return points


def _match(
    saved: Sequence[Any], present: Mapping[str, Any], what: str, differences: list[str]
) -> list[tuple[Any, Any]]:
    """Pair the checkpoint's streams with the program's; add a line to ``differences`` for every unmatched stream."""
    matched: list[tuple[Any, Any]] = []
    named = {name for name, stream in present.items() if stream.name is not None}
    for operation in dict.fromkeys(entry.operation for entry in saved):
        entries = [entry for entry in saved if entry.operation == operation]
        unnamed_saved = [
            entry.name for entry in entries if is_automatic(entry.name, operation) and entry.name not in named
        ]
        num_unnamed = sum(
            stream.call_site.operation == operation and stream.name is None for stream in present.values()
        )
        ambiguous = 0 < num_unnamed != len(unnamed_saved)
        for entry in entries:
            stream = present.get(entry.name)
            if ambiguous and entry.name in unnamed_saved:
                differences.append(
                    f"{what} {entry.name} is ambiguous: the checkpoint has {len(unnamed_saved)} unnamed {operation}, "
                    f"the program {num_unnamed}. Mark the right one with .setName({entry.name!r})"
                )
            elif stream is None:
                differences.append(f"{what} {entry.name} has no stream: the program has no {operation} of that name")
            elif stream.call_site.operation != operation:
                differences.append(
                    f"{what} {entry.name} belongs to {operation}, and the program uses that name for "
                    f"{stream.call_site.operation}"
                )
            else:
                matched.append((entry, stream))
    return matched


def _report(differences: list[str], checkpoint: Checkpoint, streams: Mapping[str, Any], *, drops: bool) -> None:
    lines = "; ".join(differences)
    if drops:
        log.error("parts of the checkpoint dropped", differences=lines, number=checkpoint.number)
        return
    saved = ", ".join(state.name for state in checkpoint.states) or "none"
    here = ", ".join(streams) or "none"
    raise CheckpointError(
        f"the program does not match checkpoint {checkpoint.number}: {lines}. Stateful streams of the checkpoint: "
        f"{saved}; of the program: {here}. Name streams with setName to restore their state, or drop what does not "
        "match: spark.penstock.checkpoint.onMismatch=drop-state"
    )


@frozen
class RestorePoints:
    """The checkpointed RDDs to use, by stream name and batch time in ms.

    They serve the batches from ``first_ms`` to ``last_ms``. States are recomputed for all batches after ``oldest_ms``;
    ``None`` without state. ``oldest_required_ms`` is the oldest batch that will be requested of a stream, by stream
    number.
    """

    files: Mapping[str, Mapping[int, str]]
    first_ms: int
    last_ms: int
    oldest_ms: int | None
    oldest_required_ms: Mapping[int, int]

    @property
    def since_ms(self) -> int:
        """The oldest batch that is computed, windows aside."""
        return self.first_ms if self.oldest_ms is None else min(self.first_ms, self.oldest_ms)


def restore_sequence(checkpoint: Checkpoint, graph: DStreamGraph, streams: Mapping[str, Node]) -> list[RestorePoints]:
    """Choose the restore points of a checkpoint for a program's stateful streams, by stream name, oldest first.

    Batches that run again may be followed by complete ones. The next ones then have restore points of their own, unless
    these are not younger: a batch that failed long ago does not require that all later states are recomputed.
    """
    interval_ms = checkpoint.batch_interval_ms
    # The last range begins the skipped times of the next run.
    next_ms = checkpoint.last_time_ms + interval_ms
    due = [(time_ms, time_ms) for time_ms in (*checkpoint.pending, next_ms)]
    sequence: list[RestorePoints] = []
    for first_ms, last_ms in sorted([*due, *((late.first_ms, late.last_ms) for late in checkpoint.late)]):
        if not sequence:
            sequence.append(restore_points(checkpoint, graph, streams, first_ms))
        elif first_ms > sequence[-1].last_ms + interval_ms:
            points = restore_points(checkpoint, graph, streams, first_ms)
            has_files = all(points.files.values())
            if has_files and (points.oldest_ms is None or points.oldest_ms > sequence[-1].last_ms):
                sequence.append(points)
        sequence[-1] = evolve(sequence[-1], last_ms=last_ms)
    return sequence


def restore_points(
    checkpoint: Checkpoint, graph: DStreamGraph, streams: Mapping[str, Node], first_ms: int
) -> RestorePoints:
    """Choose the restore points for the batches from a time on."""
    saved = {streams[state.name].number: state for state in checkpoint.states if state.name in streams}
    required_ms: dict[int, int] = {}
    files: dict[str, Mapping[int, str]] = {}
    restored_ms: list[int] = []
    # Children come before their parents: a program creates a stream after the streams that it is computed from.
    for stream in reversed(graph.streams()):
        needed_ms = required_ms.get(stream.number, first_ms)
        state = saved.get(stream.number)
        if state is not None and isinstance(stream, StatefulDStream):
            zero_ms, checkpoint_ms = checkpoint.zero_time_ms, stream.checkpoint_ms
            chosen = _choose(state.files, needed_ms, first_ms, checkpoint.first_due(checkpoint_ms))
            # A state without a file is not older than its first file would be.
            begin_ms = max(chosen, default=max(zero_ms, checkpoint.before(needed_ms, 2 * checkpoint_ms)))
            files[state.name] = chosen
            restored_ms.append(begin_ms)
            needed_ms = begin_ms + checkpoint.batch_interval_ms
        needed_ms -= stream.parent_remember_ms - stream.remember_ms
        for parent in stream.parents:
            required_ms[parent.number] = min(required_ms.get(parent.number, first_ms), needed_ms)
    oldest_required_ms = {stream.number: required_ms.get(stream.number, first_ms) for stream in graph.streams()}
    return RestorePoints(files, first_ms, first_ms, min(restored_ms, default=None), oldest_required_ms)


def _choose(files: Mapping[int, str], limit_ms: int, batch_ms: int, first_ms: int) -> dict[int, str]:
    """The files that are not younger than the limit; ``first_ms`` is the time of the first file ever."""
    chosen = {time_ms: path for time_ms, path in files.items() if time_ms <= limit_ms}
    # If the very first file is too young, the state is recomputed from the beginning. If older files have been deleted,
    # the oldest remaining one suffices: later states never need an older file. A batch never uses a younger one.
    if not chosen and files and first_ms < min(files) <= batch_ms:
        chosen = {min(files): files[min(files)]}
    return chosen
