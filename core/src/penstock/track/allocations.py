"""``Allocations``: which block belongs to which batch, as the events of blocks and batches add up to it.

The events are JSON objects, as in the driver write-ahead log. Methods are called on the endpoint's threads, the
generator's loop and, with a write-ahead log, on the log's thread, which is then the only one that changes anything.
The lock is not fair: while many receivers report, the generator's loop may wait long for it. A batch therefore takes it
a few times only, however many streams there are.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import NOTHING, fields

from penstock.blocks.block import StoredBlock

Event = dict[str, Any]

_GONE_REMEMBERED = 10_000
# Maximum number of blocks in one event.
_BLOCKS_PER_EVENT = 1000
_FIELDS = [(attribute.name, attribute.default) for attribute in fields(StoredBlock)]
_BLOCK_ID = re.compile(r"input-\d+-(\d+)-\d+")


class Allocations:
    """The blocks of all streams and batches. Only events change it."""

    def __init__(self) -> None:
        # By stream and block id, in the order of arrival.
        self._unallocated: dict[int, dict[str, StoredBlock]] = {}
        self._allocated: dict[int, dict[int, list[StoredBlock]]] = {}
        #: Ids of blocks added and not cleaned up: they make additions idempotent.
        self.known_ids: set[str] = set()
        #: The size of these blocks in bytes.
        self.known_bytes = 0
        # Blocks that were cleaned up last: a receiver whose answer was lost reports them again.
        self._gone: OrderedDict[str, None] = OrderedDict()
        #: The last batch time that was allocated; -1 for none.
        self.last_allocated_ms = -1
        #: The number of each receiver's last launch, by stream id.
        self.epochs: dict[int, int] = {}
        self._lock = threading.Lock()

    # -- changes --

    def apply(self, event: Event) -> None:
        """Apply an event.

        Raises:
            ValueError: this version does not know the kind of event, or it has another form.
            TypeError: a block has another form in this version.
        """
        with self._lock:
            match event:
                case {"what": "blocks added", "blocks": blocks}:
                    self._add([StoredBlock(**block) for block in blocks])
                case {"what": "batch allocated", "time": time_ms, "blocks": block_ids}:
                    self._allocate(time_ms, _by_number(block_ids))
                case {"what": "batches cleaned", "before": before_ms}:
                    self._clean(before_ms)
                case {"what": "receivers launched", "epochs": epochs}:
                    self._note_epochs(_by_number(epochs))
                case {"what": "streams forgotten", "streams": stream_ids}:
                    self._forget(stream_ids)
                case {"what": "allocations lost", "zero": zero, "interval": interval, "last": last, "streams": ids}:
                    self._allocate_lost(zero, interval, last, ids)
                case {"what": "summary", "epochs": epochs, "allocated": last_allocated_ms, "gone": gone}:
                    self._note_epochs(_by_number(epochs))
                    self.last_allocated_ms = last_allocated_ms
                    self._gone = OrderedDict.fromkeys(gone)
                case _:
                    raise ValueError(f"unknown event of blocks: {event.get('what')!r}")

    def _add(self, blocks: Iterable[StoredBlock]) -> None:
        for block in blocks:
            block_id, stream_id = block.block_id, block.stream_id
            if block_id in self.known_ids or block_id in self._gone:
                continue
            self.known_ids.add(block_id)
            self.known_bytes += block.num_bytes
            self._unallocated.setdefault(stream_id, {})[block_id] = block
            launched = _BLOCK_ID.fullmatch(block_id)
            if launched is not None:
                self._note_epochs({stream_id: int(launched[1])})

    def _allocate(self, time_ms: int, block_ids: Mapping[int, Iterable[str]]) -> None:
        """Give these blocks to a batch; those that are not queued are ignored."""
        batch = self._allocated.setdefault(time_ms, {})
        for stream_id, ids in block_ids.items():
            queue = self._unallocated.get(stream_id, {})
            taken = [queue.pop(block_id) for block_id in ids if block_id in queue]
            # Replaced, not extended: ``blocks`` reads it without the lock.
            batch[stream_id] = [*batch.get(stream_id, ()), *taken]
            if not queue:
                # A dictionary does not shrink.
                self._unallocated.pop(stream_id, None)
        self.last_allocated_ms = max(self.last_allocated_ms, time_ms)

    def _allocate_lost(self, zero_time_ms: int, interval_ms: int, last_time_ms: int, stream_ids: Iterable[int]) -> None:
        """Give unallocated blocks to the first batch whose allocation is lost, if there is one.

        A batch gets all unallocated blocks, so that batch had them. In another batch they would be counted twice.
        """
        before_ms = self.last_allocated_ms
        first_ms = (zero_time_ms if before_ms < 0 else before_ms) + interval_ms
        if first_ms <= last_time_ms:
            self._allocate(
                first_ms, {stream_id: list(self._unallocated.get(stream_id, ())) for stream_id in stream_ids}
            )

    def _clean(self, before_ms: int) -> None:
        for time_ms in [time_ms for time_ms in self._allocated if time_ms < before_ms]:
            for queue in self._allocated.pop(time_ms).values():
                for block in queue:
                    self.known_ids.discard(block.block_id)
                    self.known_bytes -= block.num_bytes
                    self._gone[block.block_id] = None
        while len(self._gone) > _GONE_REMEMBERED:
            self._gone.popitem(last=False)

    def _note_epochs(self, epochs: Mapping[int, int]) -> None:
        for stream_id, epoch in epochs.items():
            self.epochs[stream_id] = max(self.epochs.get(stream_id, 0), epoch)

    def _forget(self, stream_ids: Iterable[int]) -> None:
        for stream_id in stream_ids:
            gone = self._unallocated.pop(stream_id, {}).values()
            for blocks in (gone, *(batch.pop(stream_id, ()) for batch in self._allocated.values())):
                self.known_ids.difference_update(block.block_id for block in blocks)
                self.known_bytes -= sum(block.num_bytes for block in blocks)
            self.epochs.pop(stream_id, None)

    def events(self) -> list[Event]:
        """Events that restore this state from an empty one."""
        with self._lock:
            batches = {time_ms: dict(batch) for time_ms, batch in self._allocated.items()}
            queues = [list(queue.values()) for queue in self._unallocated.values()]
            summary = {"what": "summary", "allocated": self.last_allocated_ms, "gone": list(self._gone)}
            events = [summary | {"epochs": _by_text(self.epochs)}]
        for time_ms, batch in batches.items():
            for blocks in batch.values():
                events += _additions(blocks)
            ids = {stream_id: [block.block_id for block in blocks] for stream_id, blocks in batch.items()}
            events.append(batch_allocated(time_ms, ids))
        for blocks in queues:
            events += _additions(blocks)
        return events

    # -- queries --

    def new(self, blocks: Iterable[StoredBlock]) -> list[StoredBlock]:
        """The blocks that were never added."""
        with self._lock:
            return [
                block for block in blocks if block.block_id not in self.known_ids and block.block_id not in self._gone
            ]

    def gone(self, blocks: Iterable[StoredBlock]) -> list[StoredBlock]:
        """The blocks that were processed and cleaned up."""
        with self._lock:
            return [block for block in blocks if block.block_id in self._gone]

    def unallocated(self, stream_id: int) -> list[StoredBlock]:
        """The blocks of a stream that belong to no batch, in the order of their arrival."""
        return self.queues([stream_id])[stream_id]

    def queues(self, stream_ids: Iterable[int]) -> dict[int, list[StoredBlock]]:
        """The blocks of streams that belong to no batch, by stream, in the order of their arrival."""
        with self._lock:
            return {stream_id: list(self._unallocated.get(stream_id, {}).values()) for stream_id in stream_ids}

    @property
    def waiting_streams(self) -> set[int]:
        """Streams with unallocated blocks."""
        with self._lock:
            return {stream_id for stream_id, queue in self._unallocated.items() if queue}

    def known(self) -> list[StoredBlock]:
        """Blocks that are not cleaned up."""
        with self._lock:
            batches = [block for batch in self._allocated.values() for blocks in batch.values() for block in blocks]
            return [*batches, *(block for queue in self._unallocated.values() for block in queue.values())]

    @property
    def times(self) -> list[int]:
        """Batches that are not cleaned up, in the order of their allocation."""
        with self._lock:
            return list(self._allocated)

    def blocks_of_batches(self, from_ms: int, before_ms: int) -> list[StoredBlock]:
        """The blocks of the batches from a time on and strictly older than another one."""
        with self._lock:
            batches = [batch for time_ms, batch in self._allocated.items() if from_ms <= time_ms < before_ms]
            return [block for batch in batches for blocks in batch.values() for block in blocks]

    def blocks(self, time_ms: int, stream_id: int) -> list[StoredBlock]:
        """The blocks that a batch has from a stream, in the order of their arrival; takes no lock."""
        return list(self._allocated.get(time_ms, {}).get(stream_id, ()))


def _additions(blocks: list[StoredBlock]) -> Iterator[Event]:
    for first in range(0, len(blocks), _BLOCKS_PER_EVENT):
        yield blocks_added(blocks[first : first + _BLOCKS_PER_EVENT])


# -- events --


def blocks_added(blocks: Iterable[StoredBlock]) -> Event:
    """Blocks were accepted."""
    return {"what": "blocks added", "blocks": [_from_block(block) for block in blocks]}


def batch_allocated(time_ms: int, block_ids: Mapping[int, Iterable[str]]) -> Event:
    """A batch got exactly these blocks, by stream."""
    ids = {str(stream_id): list(ids) for stream_id, ids in block_ids.items() if ids}
    return {"what": "batch allocated", "time": time_ms, "blocks": ids}


def batches_cleaned(before_ms: int) -> Event:
    """Batches strictly older than this are forgotten."""
    return {"what": "batches cleaned", "before": before_ms}


def receivers_launched(epochs: Mapping[int, int]) -> Event:
    """Launches of these numbers, by stream, are about to start."""
    return {"what": "receivers launched", "epochs": _by_text(epochs)}


def streams_forgotten(stream_ids: Iterable[int]) -> Event:
    """The program has removed these streams; their blocks are forgotten."""
    return {"what": "streams forgotten", "streams": sorted(stream_ids)}


def allocations_lost(zero_time_ms: int, interval_ms: int, last_time_ms: int, stream_ids: Iterable[int]) -> Event:
    """These streams had batches up to a time, and their allocations may be missing."""
    times = {"zero": zero_time_ms, "interval": interval_ms, "last": last_time_ms}
    return {"what": "allocations lost", **times, "streams": sorted(stream_ids)}


def _by_text(values: Mapping[int, int]) -> dict[str, int]:
    """JSON has text keys only."""
    return {str(key): value for key, value in values.items()}


def _by_number(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in values.items()}


def _from_block(block: StoredBlock) -> dict[str, Any]:
    values = ((name, getattr(block, name), default) for name, default in _FIELDS)
    return {name: value for name, value, default in values if default is NOTHING or value != default}
