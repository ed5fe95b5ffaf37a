"""The nodes and streams of ``updateStateByKey`` and ``mapWithState``."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from attrs import evolve
from pyspark import RDD, Accumulator, SparkContext

from penstock import DStream
from penstock.spi import MapWithStateDStream, Node, StatefulDStream, StateOptions, node_of
from penstock_state.co_partitioned import merged
from penstock_state.partition_errors import MergeReported, PartitionErrors, Reported
from penstock_state.state_pairs import to_state_pairs
from penstock_state.state_tasks import (
    MapWithState,
    UpdateState,
    relocate_states,
    select_mapped,
    select_states,
    select_updated,
)
from penstock_state.state_view import StateView

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T", covariant=True)

# Number of partitions whose raised errors are remembered, because a recomputed partition reports them again.
_REMEMBERED = 10_000

# Slides between two checkpoints of `mapWithState`, as in Spark. The checkpoints hold references to state files.
_SLIDES_PER_CHECKPOINT = 10


class StateErrors:
    """The errors of one stream's state function, reported by the tasks and raised on the driver when a job ends.

    The batch fails even if the program never reads the partition in which its function failed.
    """

    def __init__(self, sc: SparkContext) -> None:
        #: The tasks add their errors to this accumulator.
        self.reported: Accumulator[Reported] = sc.accumulator({}, MergeReported())
        self._raised: dict[tuple[int, int], None] = {}
        self._lock = threading.Lock()

    def raise_new(self) -> None:
        """Raise a ``StateUpdateError`` with the errors reported since the last call, if there are any."""
        with self._lock:
            reported: Reported = self.reported.value
            new: list[Any] = [(partition, reported.pop(partition)) for partition in list(reported)]
            new = [(partition, errors) for partition, errors in new if partition not in self._raised]
            self._raised.update(dict.fromkeys(partition for partition, _errors in new))
            while len(self._raised) > _REMEMBERED:
                del self._raised[next(iter(self._raised))]
        if new:
            raise PartitionErrors.merged([errors for _partition, errors in new]).as_exception()


class KeyedStateDStream(StatefulDStream):
    """A state per key, updated by a function of the program; ``parent`` has key-value pairs."""

    def __init__(self, parent: Node, options: StateOptions) -> None:
        super().__init__(parent, options.num_partitions, options.partition_function)
        self._options = options
        self.restored()

    def program_state(self) -> dict[str, Any]:
        state = {**super().program_state(), "_errors": None}
        if not isinstance(self._options.initial, RDD):
            return state
        # A checkpoint of the program cannot contain an RDD: then saved state is required.
        return {**state, "_options": evolve(self._options, initial=None), "can_begin": False}

    def restored(self) -> None:
        self._errors = StateErrors(self._sc)

    def check_job(self) -> None:
        self._errors.raise_new()

    def advance_state(self, time_ms: int) -> RDD[Any]:
        states, new = self._newest(time_ms), self._parent.get_or_compute(time_ms)
        # A batch without an RDD has no new values.
        pairs = self.partitioned(self._sc.emptyRDD() if new is None else new)
        rdds = [pairs] if states is None else [states, pairs]
        return merged(self._sc, rdds, self.num_partitions, self.update_function(time_ms))

    def update_function(self, time_ms: int) -> UpdateState | MapWithState:
        """The partition function from the previous states and the new pairs of a batch to the new states."""
        raise TypeError(f"{type(self).__name__} must override update_function")

    def _newest(self, time_ms: int) -> RDD[Any] | None:
        """The state after the last batch, or after an older one if ticks were skipped; else the initial state."""
        newest_ms = max((time for time in self._generated if time < time_ms), default=None)
        if newest_ms is not None:
            return self._generated[newest_ms]
        if self._options.initial is None:
            return None
        initial = self.partitioned(self._options.initial)
        return initial.mapPartitionsWithIndex(partial(to_state_pairs, time_ms), True)


class StateDStream(KeyedStateDStream):
    """The states of ``updateStateByKey``; a worker spills when it uses more memory than the limit."""

    def update_function(self, time_ms: int) -> UpdateState:
        return UpdateState(time_ms, self._options.function, self.graph.memory_limit_mb, self._errors.reported)


class InternalMapWithStateDStream(KeyedStateDStream):
    """The states and mapped records of ``mapWithState``.

    A partition contains the mapped records and a handle: the location of its states in the state store.
    """

    def __init__(self, parent: Node, options: StateOptions) -> None:
        super().__init__(parent, options)
        self._home = ""

    @property
    def home(self) -> str:
        return self._home or f"{self.graph.state_home}/{self.number}"

    def recover(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        self._home = home
        super().recover(files, num_partitions, home)

    def relocated(self, saved: RDD[Any], home: str) -> RDD[Any]:
        return saved.mapPartitionsWithIndex(partial(relocate_states, home), True)

    @property
    def default_checkpoint_ms(self) -> int:
        return _SLIDES_PER_CHECKPOINT * self.slide_ms

    def update_function(self, time_ms: int) -> MapWithState:
        return MapWithState(
            self._options.function,
            time_ms,
            self._options.timeout_ms,
            self.home,
            self._needed_since_ms(time_ms),
            self._errors.reported,
            time=self.datetime_of(time_ms) if self._options.takes_time else None,
        )

    def _needed_since_ms(self, time_ms: int) -> int:
        """The oldest batch time whose state pending batches, recomputed partitions or a recovered run may read."""
        needed_ms = min([time_ms - self.remember_ms, *self._generated])
        recoverable_ms = self.graph.runtime.recoverable_ms()
        return needed_ms if recoverable_ms is None else min(needed_ms, recoverable_ms)


def updated_stream(stream: DStream[Any], options: StateOptions) -> DStream[Any]:
    """The stream of ``updateStateByKey``."""
    return DStream(StateView(StateDStream(node_of(stream), options), select_updated), stream.context())


class MappedStream(MapWithStateDStream[K, S, T]):
    """The stream of ``mapWithState``."""

    @classmethod
    def of(cls, stream: DStream[Any], options: StateOptions) -> MappedStream[Any, Any, Any]:
        """Add the nodes of ``mapWithState`` to a stream."""
        states = InternalMapWithStateDStream(node_of(stream), options)
        # The mapping function may return pairs with other keys than the state's.
        return cls(StateView(states, select_mapped, preserves_partitioning=False), stream.context())

    def stateSnapshots(self) -> DStream[tuple[K, S]]:
        view = node_of(self)
        assert isinstance(view, StateView)
        return DStream(StateView(view.state, select_states), self.context())
