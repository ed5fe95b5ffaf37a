"""Where each state of a checkpoint is taken up, so that all of them go on from what belongs together.

Owns the choice among the tables that were checkpointed. A stream computes nothing that is older than a table it has:
so a table is of no use that is younger than a batch to be made again, than a window on it begins, or than where a state
made of it is taken up. Reads the graph, changes nothing. Called before the start, and on the writer's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from penstock.checkpoint.manifest import Checkpoint, SavedTable

if TYPE_CHECKING:
    from penstock.graph.dstream_graph import DStreamGraph


@frozen
class StartingPoints:
    """What is taken up.

    Attributes:
        files: the tables that are, by the time of their batches, by the table's name.
        oldest_ms: the batch behind which states are made again; ``None`` when nothing is carried on.
        asked_ms: the oldest batch that a stream will be asked for, by its number.
    """

    files: Mapping[str, Mapping[int, str]]
    oldest_ms: int | None
    asked_ms: Mapping[int, int]


def starting_points(checkpoint: Checkpoint, graph: DStreamGraph, saved: Mapping[int, SavedTable]) -> StartingPoints:
    """Choose.

    Args:
        checkpoint: to go on from.
        graph: that goes on.
        saved: what the checkpoint has of the graph's tables, by the stream's number.
    """
    first_ms = min([checkpoint.last_time_ms + checkpoint.batch_interval_ms, *checkpoint.pending])
    # The oldest time that is asked for, by the stream's number.
    asked_ms: dict[int, int] = {}
    files: dict[str, Mapping[int, str]] = {}
    since: list[int] = []
    # A stream was made after those it is made of.
    for stream in reversed(graph.streams()):
        needs_ms = asked_ms.get(stream.number, first_ms)
        table = saved.get(stream.number)
        if table is not None:
            zero_ms, checkpoint_ms = checkpoint.zero_time_ms, stream.checkpoint_ms
            chosen = _chosen(table.files, needs_ms, zero_ms + checkpoint_ms)
            # One without a file is not older than its first would be.
            begin_ms = max(chosen, default=max(zero_ms, needs_ms - 2 * checkpoint_ms))
            files[table.name] = chosen
            since.append(begin_ms)
            needs_ms = begin_ms + checkpoint.batch_interval_ms
        needs_ms -= stream.parent_remember_ms - stream.remember_ms
        for parent in stream.parents:
            asked_ms[parent.number] = min(asked_ms.get(parent.number, first_ms), needs_ms)
    asked = {stream.number: asked_ms.get(stream.number, first_ms) for stream in graph.streams()}
    return StartingPoints(files, min(since, default=None), asked)


def _chosen(files: Mapping[int, str], limit_ms: int, first_ms: int) -> dict[int, str]:
    chosen = {time_ms: path for time_ms, path in files.items() if time_ms <= limit_ms}
    # Where the first of all files is too young, all is made again from the beginning. Where older ones are gone, the
    # oldest is better than nothing: what asks for more is younger than that.
    if not chosen and files and min(files) > first_ms:
        chosen = {min(files): files[min(files)]}
    return chosen
