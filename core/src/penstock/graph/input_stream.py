"""Input streams: where a graph begins.

Owns the three kinds the core has: received blocks, what a plugin's source pulls, and a queue of RDDs. Computed on the
generator's loop.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark import RDD

from penstock.errors import StreamingStateError
from penstock.graph.dstream import DStream
from penstock.listen.events import StreamInputInfo
from penstock.plugins.specs import RecoverableSource
from penstock.spark.located_rdd import located_rdd

if TYPE_CHECKING:
    from penstock.context import StreamingContext
    from penstock.plugins.specs import InputSource, SourceBatch
    from penstock.receive.receiver import Receiver


class InputDStream(DStream[Any]):
    """A stream without parents. Numbered in the order in which the program makes them."""

    receiver: Receiver[Any] | None = None
    #: Whether a run that goes on from a checkpoint has what this one has not processed.
    is_recoverable: ClassVar[bool] = True

    def __init__(self, context: StreamingContext) -> None:
        super().__init__(context, parents=())
        self.id = self._graph.add_input(self)

    def start(self) -> None:
        """Get ready to be computed."""

    def stop(self) -> None:
        """Release what ``start`` took."""


class ReceiverInputDStream(InputDStream):
    """The blocks that a receiver stored.

    Args:
        context: of the program.
        receiver: runs on an executor while the context is active.
    """

    def __init__(self, context: StreamingContext, receiver: Receiver[Any]) -> None:
        super().__init__(context)
        self.receiver = receiver

    def keep(self) -> None:
        """Nothing: the blocks are kept, and are read faster than what Spark would hold."""

    def compute(self, time_ms: int) -> RDD[Any]:
        """The batch's records. Before the start there are none: windows reach that far back."""
        received, zero_time_ms = self._graph.runtime.received_blocks, self._graph.zero_time_ms
        if received is None or zero_time_ms is None:
            raise StreamingStateError("a receiver stream can be computed only in a started context")
        if time_ms <= zero_time_ms:
            return self._sc.emptyRDD()
        references = located_rdd(self._sc, received.partitions(time_ms, self.id))
        # Last: what fails above is made again for the next output, and must not be reported twice.
        info = StreamInputInfo(self.id, received.count(time_ms, self.id), rate_limit=received.rate_limit(self.id))
        self._graph.runtime.report_input(time_ms, info)
        return references.mapPartitionsWithIndex(received.reader)


class PulledInputDStream(InputDStream):
    """What a source gives when it is asked, batch by batch.

    Args:
        context: of the program.
        make: makes the source, which is asked on the generator's loop.
    """

    def __init__(self, context: StreamingContext, make: Callable[[], InputSource]) -> None:
        super().__init__(context)
        self._make = make
        self._asked_ms = -1
        # Times at which it raised.
        self._failed: dict[int, BaseException] = {}
        # Of an earlier run: up to when the source is asked for what it was asked for then.
        self._position_ms = -1
        self._open()

    def _open(self) -> None:
        self._source = self._make()
        self._source.open(self._sc, self._graph.batch_interval_ms)

    def program_state(self) -> dict[str, Any]:
        """How the source is made, not the source."""
        return {**super().program_state(), "_source": None, "_asked_ms": -1, "_failed": {}, "_position_ms": -1}

    def restored(self) -> None:
        """Make the source."""
        self._open()

    def position(self) -> Mapping[str, Any] | None:
        """Where the source is, between two batches; ``None`` when it does not say; JSON values."""
        if not isinstance(self._source, RecoverableSource):
            return None
        # A further try makes its batch on a job's thread.
        with self._graph.lock:
            # A batch of an earlier run that is made again may have to be made once more by the next.
            asked_ms = max(self._asked_ms, self._position_ms)
            return {"time_ms": asked_ms, "source": self._source.position()}

    def go_on_from(self, position: Mapping[str, Any]) -> None:
        """Have the source go on from where it was in an earlier run."""
        if isinstance(self._source, RecoverableSource):
            self._position_ms = position["time_ms"]
            self._source.go_on_from(position["source"])

    def start(self) -> None:
        """Have the source get ready."""
        self._source.start()

    def stop(self) -> None:
        """Have the source release what it took."""
        self._source.stop()

    def compute(self, time_ms: int) -> RDD[Any]:
        """Ask the source, in the order of times: what a time that was skipped would have had is in a later batch.

        Raises:
            StreamingStateError: it failed at this time, and has been asked for a later one since.
        """
        if time_ms <= self._position_ms:
            return self._again(time_ms)
        if time_ms < self._asked_ms:
            if time_ms in self._failed:
                raise StreamingStateError(
                    f"the source of input stream {self.id} failed at {time_ms} ms and was asked for {self._asked_ms} ms"
                    " since: it cannot go back"
                ) from self._failed[time_ms]
            return self._sc.emptyRDD()
        self._asked_ms = time_ms
        try:
            batch = self._source.compute(time_ms)
        except BaseException as error:
            self._failed[time_ms] = error
            raise
        return self._rdd(time_ms, batch)

    def _again(self, time_ms: int) -> RDD[Any]:
        assert isinstance(self._source, RecoverableSource)
        batch = self._source.compute_again(time_ms)
        return self._sc.emptyRDD() if batch is None else self._rdd(time_ms, batch)

    def _rdd(self, time_ms: int, batch: SourceBatch) -> RDD[Any]:
        info = StreamInputInfo(self.id, batch.num_records, dict(batch.metadata))
        self._graph.runtime.report_input(time_ms, info, batch.count)
        return batch.rdd

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget old batches, and have the source forget them."""
        super().clear_metadata(time_ms, unpersist=unpersist)
        self._failed = {time: error for time, error in self._failed.items() if time > time_ms - self.remember_ms}
        self._source.clean_up(time_ms - self.remember_ms)


class QueueInputDStream(InputDStream):
    """RDDs from a queue, one a batch or all that are there.

    Args:
        context: of the program.
        rdds: RDDs or collections; the program may go on filling it.
        one_at_a_time: take one a batch.
        default: for batches that find the queue empty.
    """

    is_recoverable = False

    def __init__(
        self,
        context: StreamingContext,
        rdds: deque[Any] | queue.Queue[Any],
        *,
        one_at_a_time: bool,
        default: RDD[Any] | None,
    ) -> None:
        super().__init__(context)
        self._size, self._take = (
            (rdds.__len__, rdds.popleft) if isinstance(rdds, deque) else (rdds.qsize, rdds.get_nowait)
        )
        self._one_at_a_time, self._default = one_at_a_time, default
        # What was taken for a time and could not be made into an RDD: a further try has no other.
        self._taken: dict[int, list[Any]] = {}

    def program_state(self) -> dict[str, Any]:
        """The stream without its queue, which may hold RDDs."""
        return {**super().program_state(), "_size": None, "_take": None, "_default": None, "_taken": {}}

    def compute(self, time_ms: int) -> RDD[Any]:
        """The next RDD, or the union of all that are there now."""
        if time_ms not in self._taken:
            count = min(self._size(), 1) if self._one_at_a_time else self._size()
            self._taken[time_ms] = [self._take() for _ in range(count)]
        taken = self._taken[time_ms]
        rdds = [records if isinstance(records, RDD) else self._sc.parallelize(records) for records in taken]
        if not rdds:
            rdds = [self._default if self._default is not None else self._sc.emptyRDD()]
        rdd = rdds[0] if len(rdds) == 1 else self._sc.union(rdds)
        del self._taken[time_ms]
        return rdd

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget old batches, and what was in vain for them."""
        super().clear_metadata(time_ms, unpersist=unpersist)
        self._taken = {time: taken for time, taken in self._taken.items() if time > time_ms - self.remember_ms}
