"""The events of blocks and batches that the driver write-ahead log holds, as JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import NOTHING, fields

from penstock.blocks.block import StoredBlock

Event = dict[str, Any]

BLOCKS_ADDED = "blocks added"
BATCH_ALLOCATED = "batch allocated"
BATCHES_CLEANED = "batches cleaned"
RECEIVERS_LAUNCHED = "receivers launched"
STREAMS_FORGOTTEN = "streams forgotten"
ALLOCATIONS_LOST = "allocations lost"
#: What the other events do not repeat when the log is rewritten.
SUMMARY = "summary"

_FIELDS = [(each.name, each.default) for each in fields(StoredBlock)]


def blocks_added(blocks: Iterable[StoredBlock]) -> Event:
    """Blocks were accepted."""
    return {"what": BLOCKS_ADDED, "blocks": [_from_block(block) for block in blocks]}


def batch_allocated(time_ms: int, block_ids: Mapping[int, Iterable[str]]) -> Event:
    """A batch got exactly these blocks, by stream."""
    return {
        "what": BATCH_ALLOCATED,
        "time": time_ms,
        "blocks": {str(stream_id): list(ids) for stream_id, ids in block_ids.items() if ids},
    }


def batches_cleaned(before_ms: int) -> Event:
    """Batches strictly older than this are forgotten."""
    return {"what": BATCHES_CLEANED, "before": before_ms}


def receivers_launched(epochs: Mapping[int, int]) -> Event:
    """Launches of these numbers, by stream, are about to start."""
    return {"what": RECEIVERS_LAUNCHED, "epochs": by_text(epochs)}


def streams_forgotten(stream_ids: Iterable[int]) -> Event:
    """Streams, and their blocks, that no program will have again."""
    return {"what": STREAMS_FORGOTTEN, "streams": sorted(stream_ids)}


def allocations_lost(zero_time_ms: int, interval_ms: int, last_time_ms: int, stream_ids: Iterable[int]) -> Event:
    """These streams had batches up to a time, whose allocations may be missing."""
    return {
        "what": ALLOCATIONS_LOST,
        "zero": zero_time_ms,
        "interval": interval_ms,
        "last": last_time_ms,
        "streams": sorted(stream_ids),
    }


def summary(last_allocated_ms: int, epochs: Mapping[int, int], gone: Iterable[str]) -> Event:
    """The last allocated batch time, the last launches, the last blocks that were cleaned up."""
    return {"what": SUMMARY, "allocated": last_allocated_ms, "epochs": by_text(epochs), "gone": list(gone)}


def by_text(values: Mapping[int, int]) -> dict[str, int]:
    """The same with text keys, for JSON."""
    return {str(key): value for key, value in values.items()}


def by_number(values: Mapping[str, Any]) -> dict[int, Any]:
    """The same with integer keys."""
    return {int(key): value for key, value in values.items()}


def to_blocks(event: Event) -> list[StoredBlock]:
    """The blocks of an event that adds some.

    Raises:
        TypeError: a block does not have the form of this version.
    """
    return [StoredBlock(**each) for each in event["blocks"]]


def _from_block(block: StoredBlock) -> dict[str, Any]:
    values = ((name, getattr(block, name), default) for name, default in _FIELDS)
    return {name: value for name, value, default in values if default is NOTHING or value != default}
