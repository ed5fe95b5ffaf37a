"""DataFrame streams without Spark: when the DataFrame of a batch is made, and when it is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from plugins.dataframes.tests.conftest import Frame
from tests.helpers.fake_graph import INTERVAL_MS

from penstock import DStream
from penstock.spi import node_of
from penstock_dataframes.frame_nodes import (
    BatchFrame,
    DataFrameDStream,
    Lazy,
    TransformedDataFrameDStream,
)


class Frames(DataFrameDStream):
    """Frames that are made when they are needed; ``None`` in the second batch."""

    made = 0

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        def make() -> Any:
            self.made += 1
            return None if time_ms == INTERVAL_MS else Frame()

        return None if time_ms == 2 * INTERVAL_MS else Lazy(make)


@pytest.fixture
def frames(lines: DStream[Any]) -> Frames:
    node = Frames((node_of(lines),))
    node.initialize(0)
    node.remember(0)
    return node


def test_a_frame_is_made_once_and_when_it_is_needed(frames: Frames) -> None:
    frame = frames.frame(3 * INTERVAL_MS)
    assert frame is frames.frame(3 * INTERVAL_MS)
    assert frames.made == 0
    assert frame is not None
    assert frame.get() is frame.get()
    assert frames.made == 1


def test_a_frame_that_could_not_be_made_is_tried_again() -> None:
    results: list[Any] = [RuntimeError("not now"), Frame()]

    def make() -> Any:
        if isinstance(result := results.pop(0), Exception):
            raise result
        return result

    frame = Lazy(make)
    with pytest.raises(RuntimeError, match="not now"):
        frame.get()
    assert isinstance(frame.get(), Frame)


def test_a_time_without_a_batch_has_no_frame(frames: Frames) -> None:
    assert frames.frame(2 * INTERVAL_MS) is None
    assert frames.frame(0) is None
    assert frames.frame(INTERVAL_MS + 1) is None


def test_old_frames_are_forgotten(frames: Frames) -> None:
    frames.frame(INTERVAL_MS)
    frames.frame(3 * INTERVAL_MS)
    frames.clear_metadata(3 * INTERVAL_MS, unpersist=True)
    # No public name for a leak: DataFrames of old batches.
    assert list(frames._frames) == [3 * INTERVAL_MS]
    assert frames.program_state()["_frames"] == {}


@pytest.fixture
def _frames_are_dataframes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.DataFrame", Frame)


@pytest.mark.usefixtures("_frames_are_dataframes")
def test_a_function_gets_the_frame_and_returns_another(frames: Frames) -> None:
    calls: list[Any] = []

    def function(*arguments: Any) -> Any:
        calls.append(arguments)
        return arguments[0]

    derived = TransformedDataFrameDStream((frames, frames), function)
    derived.initialize(0)
    assert derived.frame(2 * INTERVAL_MS) is None
    unknown, declared = derived.frame(INTERVAL_MS), derived.frame(3 * INTERVAL_MS)
    assert unknown is not None
    assert unknown.get() is None
    assert calls == []
    assert declared is not None
    assert isinstance(declared.get(), Frame)
    assert len(calls) == 1


@pytest.mark.usefixtures("_frames_are_dataframes")
def test_a_function_that_returns_no_frame_fails_the_batch(frames: Frames) -> None:
    derived = TransformedDataFrameDStream((frames,), lambda _frame: 17)
    derived.initialize(0)
    frame = derived.frame(3 * INTERVAL_MS)
    assert frame is not None
    with pytest.raises(TypeError, match=r"test_frame_nodes\.py:\d+: the function returned int, not a DataFrame"):
        frame.get()
