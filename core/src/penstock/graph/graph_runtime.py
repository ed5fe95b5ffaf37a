"""``GraphRuntime``: the engine's functions that a started graph uses, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from penstock.listen.events import StreamInputInfo
    from penstock.spark.rdds import LocatedPartition
    from penstock.worker.block_reader import ReadBlocks


class ReceivedBlocks(Protocol):
    """The blocks that receivers stored, by batch and stream."""

    def partitions(self, batch_time_ms: int, stream_ids: Sequence[int], slots: int) -> list[LocatedPartition]:
        """The blocks of a batch from some streams, in their order, packed into partitions for ``slots`` task slots."""

    def count(self, batch_time_ms: int, stream_id: int) -> int:
        """The number of records of a batch."""

    def earliest_arrival(self, batch_time_ms: int, stream_id: int) -> int | None:
        """When the earliest record of a batch arrived at its receiver; ``None`` without records."""

    def rate_limit(self, stream_id: int) -> float | None:
        """The receiver's current rate limit in records/s; ``None`` for no limit."""

    @property
    def reader(self) -> ReadBlocks:
        """The partition function with which tasks read block references."""


class CompletedOutputs(Protocol):
    """The record of completed output operations, which a recovered run must not repeat."""

    def note(self, time_ms: int, output_op_id: int) -> None:
        """Record that an output operation of a batch is complete."""

    def has(self, time_ms: int, output_op_id: int) -> bool:
        """Whether an output operation of a batch was completed, in this run or an earlier one."""


@frozen
class GraphRuntime:
    """The engine's functions that a started graph uses. The defaults are those of a graph without an engine.

    Attributes:
        received_blocks: the receivers' blocks; ``None`` without receivers.
        partition_min_bytes: minimum size of a partition of blocks, unless it is the only one.
        report_input: records the input of a stream in the batch of a time. The third argument, unless ``None``, is
            called when the batch's jobs have ended and returns the exact number of records.
        completed_outputs: the outputs that a recovered run must not repeat; ``None`` if they are not recorded.
        generation_retries: maximum retries of an output whose RDD could not be generated.
        before_output: called with batch time and output operation id before the output's RDD is generated, if the
            program's functions or a plugin's source are called for it, because these may run Spark jobs.
        discard_file: called with the path of a checkpointed RDD that no stream needs.
        recoverable_ms: returns the oldest batch time from which a later run may recover; ``None`` without checkpoints.
    """

    received_blocks: ReceivedBlocks | None = None
    partition_min_bytes: int = 1 << 20
    report_input: Callable[[int, StreamInputInfo, Callable[[], int] | None], object] = lambda *_input: None
    completed_outputs: CompletedOutputs | None = None
    generation_retries: int = 0
    before_output: Callable[[int, int], object] = lambda _time_ms, _output_op_id: None
    monotonic_ms: Callable[[], float] = lambda: 0.0
    discard_file: Callable[[str], object] = lambda _path: None
    recoverable_ms: Callable[[], int | None] = lambda: None
