"""What type checkers make of stateful operators: never run, checked by mypy and pyright."""

from __future__ import annotations

from datetime import datetime
from typing import assert_type

from pyspark import RDD

from penstock import DStream, State, StateSpec
from penstock.graph.dstream import MapWithStateDStream


def total(values: list[int], state: float | None) -> float | None:
    return sum(values) + (state or 0.0)


def update_state(pairs: DStream[tuple[str, int]], begun: RDD[tuple[str, float]]) -> None:
    assert_type(pairs.updateStateByKey(total), DStream[tuple[str, float]])
    assert_type(pairs.updateStateByKey(total, 2, begun), DStream[tuple[str, float]])
    assert_type(pairs.updateStateByKey(total, initialRDD=[("a", 1.0)]), DStream[tuple[str, float]])
    pairs.updateStateByKey(total, initialRDD=[(1, 1.0)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def running_total(key: str, value: int | None, state: State[float]) -> bytes:
    assert_type(state.get(), float)
    assert_type(state.getOption(), float | None)
    state.update((state.getOption() or 0.0) + (value or 0))
    return key.encode()


def changes_only(time: datetime, key: str, value: int | None, state: State[float]) -> tuple[str, datetime] | None:
    return None if state.exists() else (key, time)


def map_with_state(pairs: DStream[tuple[str, int]], begun: RDD[tuple[str, float]]) -> None:
    spec = StateSpec.function(running_total)
    assert_type(spec, StateSpec[str, int | None, float, bytes])
    assert_type(spec.initialState(begun).numPartitions(2).timeout(60), StateSpec[str, int | None, float, bytes])
    mapped = pairs.mapWithState(spec)
    assert_type(mapped, MapWithStateDStream[str, float, bytes])
    assert_type(mapped.map(len), DStream[int])
    assert_type(mapped.stateSnapshots(), DStream[tuple[str, float]])
    assert_type(pairs.mapWithState(StateSpec.function(changes_only)).map(lambda pair: pair[1]), DStream[datetime])
    spec.initialState([(1, 1.0)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
