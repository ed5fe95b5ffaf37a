"""``LostBlocks``: the blocks that tasks could not read.

Owns which ones were told already: several tasks, and several tries of one, may miss the same block. Never decides what
becomes of the batch: the task that missed the block does, by ``spark.penstock.blocks.onLost``. Called on the tracker's
loop.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping

from attrs import evolve

from penstock.blocks.messages import LostBlock
from penstock.runtime.log import get_logger
from penstock.track.receiver_failures import ReceiverFailures
from penstock.track.tracked_receiver import TrackedReceiver

log = get_logger("receiver_tracker")

_REMEMBERED = 10_000


class LostBlocks:
    """Count what was lost, and tell of it once.

    Args:
        tracked: the receivers, by stream id.
        failures: gives errors to the listeners.
        skips: whether tasks go on without such blocks.
    """

    def __init__(self, tracked: Mapping[int, TrackedReceiver], failures: ReceiverFailures, *, skips: bool) -> None:
        self._tracked, self._failures = tracked, failures
        self._follows = "they are left out" if skips else "their batch fails"
        self._told: OrderedDict[str, None] = OrderedDict()

    def note(self, blocks: Iterable[LostBlock]) -> None:
        """Count blocks that were not counted yet."""
        by_stream: dict[int, list[LostBlock]] = defaultdict(list)
        for block in blocks:
            if block.block_id not in self._told and block.stream_id in self._tracked:
                self._told[block.block_id] = None
                by_stream[block.stream_id].append(block)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        for stream_id, lost in by_stream.items():
            tracked = self._tracked[stream_id]
            count, records = len(lost), sum(block.num_records for block in lost)
            tracked.info = evolve(
                tracked.info,
                lost_blocks=tracked.info.lost_blocks + count,
                lost_records=tracked.info.lost_records + records,
            )
            log.error("blocks lost", stream_id=stream_id, blocks=count, records=records, reason=lost[0].reason)
            self._failures.tell(
                tracked, f"{count} blocks ({records} records) are lost, {self._follows}: {lost[0].reason}"
            )
