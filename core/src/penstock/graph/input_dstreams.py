"""The nodes of inputs: blocks of receivers, sources of plugins that the driver pulls, and queues of RDDs."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark import RDD

from penstock.errors import StreamingStateError
from penstock.graph.batch_input import BatchInput, inputs_of
from penstock.graph.node import Node
from penstock.listen.events import StreamInputInfo
from penstock.plugins.specs import ArrowInput, DatedSource, RecoverableSource
from penstock.runtime.clock import iso_time
from penstock.spark.rdds import as_rdd

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.graph.dstream_graph import DStreamGraph
    from penstock.plugins.specs import InputSource, SourceBatch


class InputDStream(Node):
    """A stream without parents. Its ``id`` counts the input streams in the order of their creation."""

    role = "input"
    #: The receiver of a receiver stream.
    receiver: Any = None
    #: Whether a recovered run gets the records that this run has not processed.
    is_recoverable: ClassVar[bool] = True

    def __init__(self, graph: DStreamGraph) -> None:
        super().__init__(graph, parents=())
        self.id = graph.add(graph.inputs, self)

    def start(self) -> None:
        """Prepare for the first batch."""

    def stop(self) -> None:
        """Release what ``start`` acquired."""


class ReceiverInputDStream(InputDStream):
    """The blocks that a receiver stored; the schema is ``None`` if it is unknown before the first block."""

    has_columns = True
    known_schema: pa.Schema | None = None

    def __init__(self, graph: DStreamGraph, receiver: Any, schema: pa.Schema | None = None) -> None:
        super().__init__(graph)
        self.receiver = receiver
        self.known_schema = schema

    def persist_by_default(self) -> None:
        """Do nothing: reading the stored blocks is faster than reading RDDs that Spark persisted."""

    def compute(self, time_ms: int) -> RDD[Any]:
        rdd = self.graph.blocks(time_ms, (self.id,)).rdd(self.graph.placeholder_rdds)
        received = self.graph.runtime.received_blocks
        if received is not None and time_ms > (self.graph.zero_time_ms or 0):
            # Last, because the input must be reported once, and a failure above is retried for the next output.
            self.graph.runtime.report_input(time_ms, received.input_info(time_ms, self.id), None)
        return rdd

    def batch_inputs(self, time_ms: int) -> tuple[BatchInput, ...] | None:
        rdd = self.get_or_compute(time_ms)
        return None if rdd is None else inputs_of(rdd)

    @cached_property
    def receiver_ids(self) -> tuple[int, ...] | None:
        return (self.id,) if self.is_fusible and self._checkpoint_ms is None else None


class PulledInputDStream(InputDStream):
    """The batches of a source, which is called once per batch, on the generator's loop; ``make`` creates the source."""

    has_columns = True
    runs_foreign_code = True

    def __init__(self, graph: DStreamGraph, make: Callable[[], InputSource]) -> None:
        super().__init__(graph)
        self._make = make
        self.restored()

    def restored(self) -> None:
        # The newest batch time that the source was called with.
        self._newest_ms = -1
        # The source's errors by batch time.
        self._failed: dict[int, BaseException] = {}
        # The newest batch time of an earlier run: the source must repeat its batches up to this time.
        self._position_ms = -1
        # The columns of the remembered batches, if the source has columns; None for a batch without records.
        self._columns: dict[int, ArrowInput | None] = {}
        self._source = self._make()
        self._source.open(self._sc, self.graph.batch_interval_ms)

    def program_state(self) -> dict[str, Any]:
        return {**super().program_state(), "_source": None, "_failed": {}, "_columns": {}}

    def position(self) -> Mapping[str, Any] | None:
        """The source's position between two batches, as JSON values; ``None`` for a source without one."""
        if not isinstance(self._source, RecoverableSource):
            return None
        # A retried batch is computed on a job's thread.
        with self.graph.lock:
            # A run that has not yet repeated all batches must have the next run repeat them.
            newest_ms = max(self._newest_ms, self._position_ms)
            return {"time_ms": newest_ms, "source": self._source.position()}

    def recover_from(self, position: Mapping[str, Any]) -> None:
        """Continue from a position that an earlier run saved."""
        if isinstance(self._source, RecoverableSource):
            self._position_ms = position["time_ms"]
            self._source.restore(position["source"])

    def start(self) -> None:
        self._source.start()

    def stop(self) -> None:
        self._source.stop()

    def compute(self, time_ms: int) -> RDD[Any]:
        if time_ms <= self._position_ms:
            assert isinstance(self._source, RecoverableSource)
            repeated = self._source.compute_again(time_ms)
            return self._empty(time_ms) if repeated is None else self._rdd(time_ms, repeated)
        if time_ms < self._newest_ms:
            if time_ms in self._failed:
                raise StreamingStateError(
                    f"the source of input stream {self.id} failed at {iso_time(time_ms)} and has computed the batch of "
                    f"{iso_time(self._newest_ms)} since: the failed batch cannot be computed again"
                ) from self._failed[time_ms]
            return self._empty(time_ms)
        self._newest_ms = time_ms
        try:
            if time_ms <= self.graph.late_until_ms and isinstance(self._source, DatedSource):
                batch = self._source.compute_late(time_ms)
            else:
                batch = self._source.compute(time_ms)
        except BaseException as error:
            self._failed[time_ms] = error
            raise
        return self._rdd(time_ms, batch)

    def _empty(self, time_ms: int) -> RDD[Any]:
        self._columns[time_ms] = None
        return self._sc.emptyRDD()

    def _rdd(self, time_ms: int, batch: SourceBatch) -> RDD[Any]:
        info = StreamInputInfo(self.id, batch.num_records, dict(batch.metadata))
        self.graph.runtime.report_input(time_ms, info, batch.count)
        if batch.arrow is not None:
            self._columns[time_ms] = batch.arrow
        return batch.rdd

    def batch_inputs(self, time_ms: int) -> tuple[BatchInput, ...] | None:
        rdd = self.get_or_compute(time_ms)
        if rdd is None:
            return None
        columns = self._columns.get(time_ms, rdd)
        return () if columns is None else (columns,)

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        super().clear_metadata(time_ms, unpersist=unpersist)
        self._columns = {time: columns for time, columns in self._columns.items() if time in self._generated}
        self._failed = {time: error for time, error in self._failed.items() if time > time_ms - self.remember_ms}
        self._source.clean_up(self._needed_since_ms(time_ms))

    def _needed_since_ms(self, time_ms: int) -> int:
        """The oldest batch that a later batch, a failed one or a recovered state may read."""
        recoverable_ms = self.graph.runtime.recoverable_ms()
        readers: list[int] = [time_ms, *self.graph.failed_ms]
        if recoverable_ms is not None:
            readers.append(recoverable_ms)
        return min(readers) - self.remember_ms


class QueueInputDStream(InputDStream):
    """RDDs or collections from a queue, to which the program may add while the context runs."""

    is_recoverable = False

    def __init__(
        self, graph: DStreamGraph, rdds: deque[Any] | queue.Queue[Any], *, one_at_a_time: bool, default: RDD[Any] | None
    ) -> None:
        super().__init__(graph)
        self._size = rdds.__len__ if isinstance(rdds, deque) else rdds.qsize
        self._take = rdds.popleft if isinstance(rdds, deque) else rdds.get_nowait
        self._one_at_a_time = one_at_a_time
        self._default = default
        # The items of batches whose RDD could not be created yet: a retry uses the same items.
        self._taken: dict[int, list[Any]] = {}

    def program_state(self) -> dict[str, Any]:
        return {**super().program_state(), "_size": None, "_take": None, "_default": None, "_taken": {}}

    def compute(self, time_ms: int) -> RDD[Any]:
        if time_ms not in self._taken:
            count = min(self._size(), 1) if self._one_at_a_time else self._size()
            self._taken[time_ms] = [self._take() for _ in range(count)]
        taken = self._taken[time_ms]
        rdds = [as_rdd(self._sc, records) for records in taken]
        if not rdds:
            rdds = [self._default if self._default is not None else self._sc.emptyRDD()]
        rdd = rdds[0] if len(rdds) == 1 else self._sc.union(rdds)
        del self._taken[time_ms]
        return rdd

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        super().clear_metadata(time_ms, unpersist=unpersist)
        self._taken = {time: taken for time, taken in self._taken.items() if time > time_ms - self.remember_ms}
