"""``Allocations``: the batch of every block, as the result of all events of blocks and batches.

The events are JSON objects, as in the driver write-ahead log. Methods are called on the endpoint's threads, the
generator's loop and, with a write-ahead log, on the log's thread, which is then the only one that changes anything.
The lock is not fair: while many receivers report, the generator's loop may wait long for it. A batch therefore takes it
a few times only, however many streams there are.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import NOTHING, Attribute, asdict

from penstock.blocks.block import StoredBlock

Event = dict[str, Any]

# Launches of a stream whose accepted blocks are remembered: reports of older ones are refused.
_LAUNCHES_REMEMBERED = 100
# Maximum number of blocks in one event.
_BLOCKS_PER_EVENT = 1000
_BLOCK_ID = re.compile(r"input-\d+-(\d+)-(\d+)")


class NumberRanges:
    """A set of integers that takes memory per gap, not per element.

    ``edges`` are the numbers, ascending, at which a range begins and, one after its last element, ends.
    """

    def __init__(self, edges: Iterable[int] = ()) -> None:
        self.edges = list(edges)

    def __contains__(self, number: int) -> bool:
        return bisect_right(self.edges, number) % 2 == 1

    def add(self, number: int) -> None:
        """Add an element."""
        if number in self:
            return
        for edge in (number, number + 1):
            position = bisect_left(self.edges, edge)
            if edge in self.edges[position : position + 1]:
                # Two ranges meet here.
                del self.edges[position]
            else:
                self.edges.insert(position, edge)


class Allocations:
    """The blocks of all streams and batches. Only events change it."""

    def __init__(self) -> None:
        # By stream and block id, in the order of arrival; only streams with blocks.
        self._unallocated: dict[int, dict[str, StoredBlock]] = {}
        self._allocated: dict[int, dict[int, list[StoredBlock]]] = {}
        # Numbers of all blocks ever added, by stream and launch. A receiver without an answer reports them again.
        self._accepted: dict[int, dict[int, NumberRanges]] = {}
        # Ids of blocks that are not cleaned up and whose ids, chosen by a plugin, have another form.
        self._foreign_ids: set[str] = set()
        #: The number and the size in bytes of the blocks that are not cleaned up.
        self.num_known = 0
        self.known_bytes = 0
        #: The last batch time that was allocated; -1 for none.
        self.last_allocated_ms = -1
        #: The number of each receiver's last launch, by stream id.
        self.epochs: dict[int, int] = {}
        #: The merged metadata of all blocks ever added, by stream id; replaced, not changed.
        self.positions: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()

    # -- changes --

    def apply(self, event: Event) -> None:
        """Apply an event; raises ValueError or TypeError for one of another version."""
        with self._lock:
            match event:
                case {"what": "blocks added", "blocks": blocks}:
                    self._add([StoredBlock(**block) for block in blocks])
                case {"what": "batch allocated", "time": time_ms, "blocks": block_ids}:
                    self._allocate(time_ms, _by_number(block_ids))
                case {"what": "batches cleaned", "before": before_ms, **rest}:
                    retained = [range(*ends) for ends in rest.get("retained", ())]
                    for time_ms in old_batches(self._allocated, before_ms, retained):
                        for cleaned in self._allocated.pop(time_ms).values():
                            self._count_out(cleaned)
                case {"what": "receivers launched", "epochs": epochs}:
                    self._note_epochs(_by_number(epochs))
                case {"what": "streams forgotten", "streams": stream_ids}:
                    self._forget(stream_ids)
                case {"what": "allocations lost", "zero": zero, "interval": interval, "last": last, "streams": ids}:
                    self._allocate_lost(zero, interval, last, ids)
                case {"what": "summary", "epochs": epochs, "allocated": last_allocated_ms, "accepted": accepted}:
                    self._note_epochs(_by_number(epochs))
                    self.positions |= _by_number(event.get("positions", {}))
                    self.last_allocated_ms = last_allocated_ms
                    for stream_id, epoch, edges in accepted:
                        self._accepted.setdefault(stream_id, {})[epoch] = NumberRanges(edges)
                case _:
                    raise ValueError(f"unknown event of blocks: {event.get('what')!r}")

    def _add(self, blocks: Iterable[StoredBlock]) -> None:
        for block in filter(self._is_new, blocks):
            match = _BLOCK_ID.fullmatch(block.block_id)
            if match is None:
                self._foreign_ids.add(block.block_id)
            else:
                epoch, number = int(match[1]), int(match[2])
                launches = self._accepted.setdefault(block.stream_id, {})
                launches.setdefault(epoch, NumberRanges()).add(number)
                if len(launches) > _LAUNCHES_REMEMBERED:
                    del launches[min(launches)]
                self._note_epochs({block.stream_id: epoch})
            if block.metadata:
                self.positions[block.stream_id] = {**self.positions.get(block.stream_id, {}), **block.metadata}
            self.num_known += 1
            self.known_bytes += block.num_bytes
            self._unallocated.setdefault(block.stream_id, {})[block.block_id] = block

    def _is_new(self, block: StoredBlock) -> bool:
        match = _BLOCK_ID.fullmatch(block.block_id)
        if match is None:
            return block.block_id not in self._foreign_ids
        return int(match[2]) not in self._accepted.get(block.stream_id, {}).get(int(match[1]), ())

    def _allocate(self, time_ms: int, block_ids: Mapping[int, Iterable[str]]) -> None:
        """Allocate these blocks to a batch; blocks that are not queued are ignored."""
        batch = self._allocated.setdefault(time_ms, {})
        for stream_id, ids in block_ids.items():
            queue = self._unallocated.get(stream_id, {})
            taken = [queue.pop(block_id) for block_id in ids if block_id in queue]
            # Replaced, not extended: ``blocks`` reads it without the lock.
            batch[stream_id] = [*batch.get(stream_id, ()), *taken]
            if not queue:
                self._unallocated.pop(stream_id, None)
        self.last_allocated_ms = max(self.last_allocated_ms, time_ms)

    def _allocate_lost(self, zero_time_ms: int, interval_ms: int, last_time_ms: int, stream_ids: Iterable[int]) -> None:
        """Allocate unallocated blocks to the first batch whose allocation is lost, if there is one.

        That batch had these blocks, because a batch gets all unallocated blocks. Another batch would count them twice.
        """
        before_ms = self.last_allocated_ms
        first_ms = (zero_time_ms if before_ms < 0 else before_ms) + interval_ms
        if first_ms <= last_time_ms:
            self._allocate(
                first_ms, {stream_id: list(self._unallocated.get(stream_id, ())) for stream_id in stream_ids}
            )

    def _count_out(self, blocks: Collection[StoredBlock]) -> None:
        self._foreign_ids.difference_update(block.block_id for block in blocks)
        self.num_known -= len(blocks)
        self.known_bytes -= sum(block.num_bytes for block in blocks)

    def _note_epochs(self, epochs: Mapping[int, int]) -> None:
        for stream_id, epoch in epochs.items():
            self.epochs[stream_id] = max(self.epochs.get(stream_id, 0), epoch)

    def _forget(self, stream_ids: Iterable[int]) -> None:
        for stream_id in stream_ids:
            self._count_out(self._unallocated.pop(stream_id, {}).values())
            for batch in self._allocated.values():
                self._count_out(batch.pop(stream_id, ()))
            self._accepted.pop(stream_id, None)
            self.epochs.pop(stream_id, None)
            self.positions.pop(stream_id, None)

    def events(self) -> list[Event]:
        """Events that restore this state from an empty one."""
        with self._lock:
            batches = {time_ms: dict(batch) for time_ms, batch in self._allocated.items()}
            queues = [list(queue.values()) for queue in self._unallocated.values()]
            accepted = [
                [stream_id, epoch, list(numbers.edges)]
                for stream_id, launches in self._accepted.items()
                for epoch, numbers in launches.items()
            ]
            summary = {"what": "summary", "allocated": self.last_allocated_ms, "accepted": accepted}
            summary["epochs"] = _by_text(self.epochs)
            if self.positions:
                summary["positions"] = _by_text(self.positions)
        events: list[Event] = []

        def add(blocks: list[StoredBlock]) -> None:
            starts = range(0, len(blocks), _BLOCKS_PER_EVENT)
            events.extend(blocks_added(blocks[first : first + _BLOCKS_PER_EVENT]) for first in starts)

        for time_ms, batch in batches.items():
            for blocks in batch.values():
                add(blocks)
            ids = {stream_id: [block.block_id for block in blocks] for stream_id, blocks in batch.items()}
            events.append(batch_allocated(time_ms, ids))
        for blocks in queues:
            add(blocks)
        # The blocks come before the summary: it names them as accepted, so they would not be added after it.
        return [*events, summary]

    # -- queries --

    def new(self, blocks: Iterable[StoredBlock]) -> list[StoredBlock]:
        """The blocks among these that were never added."""
        with self._lock:
            return list(filter(self._is_new, blocks))

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
            return set(self._unallocated)

    def retained(self) -> list[StoredBlock]:
        """Blocks that are not cleaned up."""
        with self._lock:
            batches = [block for batch in self._allocated.values() for blocks in batch.values() for block in blocks]
            return [*batches, *(block for queue in self._unallocated.values() for block in queue.values())]

    @property
    def times(self) -> list[int]:
        """Batches that are not cleaned up, in the order of their allocation."""
        with self._lock:
            return list(self._allocated)

    def blocks_of_batches(self, times_ms: Iterable[int]) -> list[StoredBlock]:
        """The blocks of batches, oldest batch first."""
        with self._lock:
            batches = [self._allocated.get(time_ms, {}) for time_ms in sorted(times_ms)]
            return [block for batch in batches for blocks in batch.values() for block in blocks]

    def blocks(self, time_ms: int, stream_id: int) -> list[StoredBlock]:
        """The blocks that a batch has from a stream, in the order of their arrival; takes no lock."""
        return list(self._allocated.get(time_ms, {}).get(stream_id, ()))


def old_batches(times_ms: Iterable[int], before_ms: int, retained: Sequence[range]) -> list[int]:
    """The batches that are strictly older than a time and in none of the retained ranges.

    Both the starts and the ends of the ranges ascend: there may be thousands.
    """
    starts = [times.start for times in retained]

    def is_retained(time_ms: int) -> bool:
        position = bisect_right(starts, time_ms)
        return position > 0 and time_ms in retained[position - 1]

    return [time_ms for time_ms in times_ms if time_ms < before_ms and not is_retained(time_ms)]


# -- events --


def blocks_added(blocks: Iterable[StoredBlock]) -> Event:
    """Blocks were accepted."""

    def is_set(attribute: Attribute[Any], value: Any) -> bool:
        return attribute.default is NOTHING or value != attribute.default

    return {"what": "blocks added", "blocks": [asdict(block, recurse=False, filter=is_set) for block in blocks]}


def batch_allocated(time_ms: int, block_ids: Mapping[int, Iterable[str]]) -> Event:
    """A batch got exactly these blocks, by stream."""
    ids = {str(stream_id): list(ids) for stream_id, ids in block_ids.items() if ids}
    return {"what": "batch allocated", "time": time_ms, "blocks": ids}


def batches_cleaned(before_ms: int, retained: Sequence[range] = ()) -> Event:
    """Batches strictly older than this, and in none of the retained ranges, are forgotten."""
    event = {"what": "batches cleaned", "before": before_ms}
    return {**event, "retained": [[times.start, times.stop] for times in retained]} if retained else event


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


def _by_text(values: Mapping[int, Any]) -> dict[str, Any]:
    """Convert keys to text, because JSON has text keys only."""
    return {str(key): value for key, value in values.items()}


def _by_number(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in values.items()}
