"""Restore points: the consistent set of checkpointed RDDs from which a recovered run starts its states.

A stateful stream computes nothing older than an RDD that it already has. Therefore an RDD cannot be used if it is
younger than a batch that will be generated again, than the start of a window over it, or than the restore point of a
state that is computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.graph.stateful import StatefulDStream

if TYPE_CHECKING:
    from penstock.graph.dstream_graph import DStreamGraph
    from penstock.graph.node import Node


@frozen
class RestorePoints:
    """The restore points of a checkpoint's states.

    Attributes:
        files: the checkpointed RDDs to use, by stream name and batch time in ms.
        oldest_ms: states are recomputed for all batches after this one; ``None`` without state.
        oldest_required_ms: the oldest batch that will be requested of a stream, by stream number.
    """

    files: Mapping[str, Mapping[int, str]]
    oldest_ms: int | None
    oldest_required_ms: Mapping[int, int]


def restore_points(checkpoint: Checkpoint, graph: DStreamGraph, streams: Mapping[str, Node]) -> RestorePoints:
    """Choose the restore points of a checkpoint for a program's stateful streams, by stream name."""
    saved = {streams[state.name].number: state for state in checkpoint.states if state.name in streams}
    first_ms = min([checkpoint.last_time_ms + checkpoint.batch_interval_ms, *checkpoint.pending])
    required_ms: dict[int, int] = {}
    files: dict[str, Mapping[int, str]] = {}
    restored_ms: list[int] = []
    # Children come before their parents: a program creates a stream after the streams that it is computed from.
    for stream in reversed(graph.streams()):
        needed_ms = required_ms.get(stream.number, first_ms)
        state = saved.get(stream.number)
        if state is not None and isinstance(stream, StatefulDStream):
            zero_ms, checkpoint_ms = checkpoint.zero_time_ms, stream.checkpoint_ms
            chosen = _choose(state.files, needed_ms, zero_ms + checkpoint_ms)
            # A state without a file is not older than its first file would be.
            begin_ms = max(chosen, default=max(zero_ms, needed_ms - 2 * checkpoint_ms))
            files[state.name] = chosen
            restored_ms.append(begin_ms)
            needed_ms = begin_ms + checkpoint.batch_interval_ms
        needed_ms -= stream.parent_remember_ms - stream.remember_ms
        for parent in stream.parents:
            required_ms[parent.number] = min(required_ms.get(parent.number, first_ms), needed_ms)
    oldest_required_ms = {stream.number: required_ms.get(stream.number, first_ms) for stream in graph.streams()}
    return RestorePoints(files, min(restored_ms, default=None), oldest_required_ms)


def _choose(files: Mapping[int, str], limit_ms: int, first_ms: int) -> dict[int, str]:
    """The files that are not younger than the limit; ``first_ms`` is the time of the first file ever."""
    chosen = {time_ms: path for time_ms, path in files.items() if time_ms <= limit_ms}
    # If the very first file is too young, the state is recomputed from the beginning. If older files have been deleted,
    # the oldest remaining one suffices: later states never need an older file.
    if not chosen and files and min(files) > first_ms:
        chosen = {min(files): files[min(files)]}
    return chosen
