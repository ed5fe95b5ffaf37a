"""``Checkpoint``: the values that a run needs to recover from an earlier run, in JSON. Reading executes no code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import asdict, evolve, field, frozen

from penstock.errors import CheckpointError, other_version, summary_of
from penstock.json_converter import structure
from penstock.track.allocations import Event, allocations_lost

#: Folder of the receivers' blocks.
RECEIVED_DATA = "receivedData"
#: Folder of the driver write-ahead log: received blocks and their allocation to batches.
BLOCK_LOG = "receivedBlockMetadata"
#: Folder of the log of completed output operations.
COMPLETED_OUTPUTS = "completedOutputs"


@frozen
class SavedState:
    """The checkpointed state of one stateful stream.

    ``files`` are its checkpointed RDDs by batch time in ms, and ``store`` is the folder of its state store, empty if it
    has none. Both are relative to the checkpoint directory.
    """

    name: str
    operation: str
    call_site: str
    num_partitions: int
    partitioned_by: str
    files: dict[int, str]
    store: str = ""


@frozen
class SavedInput:
    """One input stream, its receiver's rate limit in records/s, and the position of its source, if it has any."""

    name: str
    operation: str
    stream_id: int
    rate: float | None = None
    position: dict[str, Any] | None = None


@frozen
class BatchRange:
    """Consecutive batches, from the first to the last batch time in ms."""

    first_ms: int
    last_ms: int

    def times(self, interval_ms: int) -> range:
        """The batch times."""
        return range(self.first_ms, self.last_ms + 1, interval_ms)


@frozen
class LateBatches(BatchRange):
    """Batches that were due during a downtime; no checkpoint mentions them as generated.

    ``runs`` is the number of runs that may have begun each.
    """

    runs: int


@frozen(kw_only=True)
class Checkpoint:
    """A run at one moment.

    Attributes:
        number: higher than the number of every earlier checkpoint in this directory.
        claim: number of the claim on the directory under which it was written; 0 without.
        run: id of the run; a recovered run keeps it.
        hash_seed: ``PYTHONHASHSEED`` of the Python workers; it decides the partition of a key.
        zero_time_ms: the graph's zero time; -1 before it is known.
        last_time_ms: the youngest generated or late batch; zero time before the first, -1 before zero time is known.
        late: batches of downtimes that are not generated yet.
        skipped: batch times that were never due, since the oldest batch that state is recovered from.
        pending: generated batches that are not complete, and the number of runs that have begun each.
        failed: pending batches whose output failed.
        needed_ms: a recovery from this checkpoint needs no blocks of strictly older batches, except for failed batches.
        states: one entry per stateful stream.
        listeners: values that listeners have saved, by listener name.
        conf: the configuration in force, without secrets.
        program: file of the pickled program; ``None`` if ``setupFunc`` rebuilds it.
        folders: folders of this run and earlier ones in the checkpoint directory.
        next_stream_id: lower bound for the ids of new input streams; no input has had this id or a higher one.
        later_attempts: number of runs that may have begun batches younger than ``last_time_ms``.
        logged_events: number of events committed to the driver write-ahead log; 0 if it is off.
        launched_as: the application name at the launch of the process; empty if none was set.
        boot: ``boot_id`` of the driver's host; empty if unknown.
    """

    #: Version of the JSON format; every other version is refused.
    format: ClassVar[int] = 4

    number: int
    written_ms: int
    application: str
    run: str
    hash_seed: str
    batch_interval_ms: int
    versions: dict[str, str] = field(factory=dict)
    zero_time_ms: int = -1
    last_time_ms: int = -1
    pending: dict[int, int] = field(factory=dict)
    late: list[LateBatches] = field(factory=list)
    skipped: list[BatchRange] = field(factory=list)
    failed: list[int] = field(factory=list)
    needed_ms: int = -1
    states: list[SavedState] = field(factory=list)
    inputs: list[SavedInput] = field(factory=list)
    listeners: dict[str, Any] = field(factory=dict, repr=False)
    conf: dict[str, str] = field(factory=dict, repr=False)
    program: str | None = None
    folders: list[str] = field(factory=list)
    next_stream_id: int = 0
    later_attempts: int = 1
    logged_events: int = 0
    launched_as: str = ""
    boot: str = ""
    claim: int = 0

    def recovered(self, **own: Any) -> Checkpoint:
        """The first checkpoint of a run that recovers from this one; ``own`` are the fields that it has of its own."""
        return evolve(
            self,
            pending={time_ms: runs + 1 for time_ms, runs in self.pending.items()},
            late=[evolve(batches, runs=batches.runs + 1) for batches in self.late],
            later_attempts=self.later_attempts + 1,
            **own,
        )

    def attempts(self, time_ms: int) -> int:
        """The number of runs that have begun a batch, with the one whose first checkpoint this is.

        Jobs may run before a checkpoint contains their batch. So newer batches that were due when this run started also
        count as begun. The number may be too high, never too low.
        """
        if time_ms in self.pending:
            return self.pending[time_ms]
        # With the clock set back, nothing bounds the batches of the earlier run.
        until_ms = self.written_ms if self.written_ms > self.last_time_ms else sys.maxsize
        if self.last_time_ms < time_ms <= until_ms:
            return self.later_attempts
        return next((batches.runs for batches in self.late if batches.first_ms <= time_ms <= batches.last_ms), 1)

    @property
    def next_ms(self) -> int:
        """The oldest batch that is not generated yet."""
        return min([self.last_time_ms + self.batch_interval_ms, *(batches.first_ms for batches in self.late)])

    def first_due(self, period_ms: int) -> int:
        """The first multiple of a period after zero time that was due, in ms."""
        first_ms = self.zero_time_ms + period_ms
        for skipped in self.skipped:
            if skipped.first_ms <= first_ms <= skipped.last_ms:
                first_ms += ((skipped.last_ms - first_ms) // period_ms + 1) * period_ms
        return first_ms

    def before(self, time_ms: int, duration_ms: int) -> int:
        """The time that is a duration before another one, in ms. Skipped batch times do not count."""
        start_ms = time_ms - duration_ms
        for skipped in reversed(self.skipped):
            if start_ms <= skipped.last_ms and skipped.first_ms < time_ms:
                start_ms -= skipped.last_ms - skipped.first_ms + self.batch_interval_ms
        return start_ms

    @property
    def rates(self) -> dict[int, float]:
        """The receivers' rate limits by stream id, records/s."""
        return {saved.stream_id: saved.rate for saved in self.inputs if saved.rate is not None}

    def lost_allocations(self) -> Event:
        """The event that stands for the allocations of the batches if they are missing from the write-ahead log."""
        streams = [saved.stream_id for saved in self.inputs]
        return allocations_lost(self.zero_time_ms, self.batch_interval_ms, self.last_time_ms, streams)

    def to_json(self) -> bytes:
        """Encode as UTF-8 JSON; refuses values that have no JSON form, by name."""
        try:
            return json.dumps({"format": self.format, **asdict(self)}, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            wrong = [
                f"the position of input stream {saved.name}" for saved in self.inputs if not _is_json(saved.position)
            ]
            raise CheckpointError(f"{', '.join(wrong) or 'the checkpoint'} is not valid JSON: {error}") from error

    @staticmethod
    def from_json(data: bytes) -> Checkpoint:
        """Decode the result of ``to_json``; refuses another format version."""
        try:
            values = json.loads(data)
            if not isinstance(values, Mapping) or "format" not in values:
                raise ValueError("it has no format version")
            if values["format"] != Checkpoint.format:
                raise CheckpointError(other_version("it", values["format"], Checkpoint.format))
            read = structure({name: value for name, value in values.items() if name != "format"}, Checkpoint)
            if read.last_time_ms < read.zero_time_ms:
                raise ValueError(f"its last batch, {read.last_time_ms} ms, is before zero time, {read.zero_time_ms} ms")
            return read
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"it is not a Penstock checkpoint: {summary_of(error)}") from error


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
