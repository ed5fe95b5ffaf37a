"""``persist``, ``cache`` and ``checkpoint``: RDDs that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark import RDD, StorageLevel

from penstock import DStream
from penstock.checkpoint import checkpoint_store
from penstock.errors import ConfigurationError
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


class Kept:
    """The RDDs of a stream, batch by batch, with the storage level that each had when its job ran."""

    def __init__(self, stream: DStream[Any]) -> None:
        self.rdds: list[RDD[Any]] = []
        self.levels: list[StorageLevel] = []
        self.batches: list[list[Any]] = []
        stream.foreachRDD(self._note)

    def _note(self, rdd: RDD[Any]) -> None:
        self.batches.append(rdd.collect())
        self.rdds.append(rdd)
        self.levels.append(rdd.getStorageLevel())


def test_rdds_have_the_programs_storage_level_and_old_ones_are_unpersisted(run_outputs: Any, wait_for: Any) -> None:
    kept: dict[str, Kept] = {}

    def program(stream: DStream[Any]) -> None:
        streams = {
            "none": stream.map(str),
            "cached": stream.map(str).cache(),
            "on disk": stream.map(str).persist(StorageLevel.DISK_ONLY),
        }
        kept.update({name: Kept(each) for name, each in streams.items()})

    run_outputs(program, [[1], [2], [3], [4]])
    levels = {name: {repr(level) for level in each.levels} for name, each in kept.items()}
    assert levels == {
        "none": {repr(StorageLevel.NONE)},
        "cached": {repr(StorageLevel.MEMORY_ONLY)},
        "on disk": {repr(StorageLevel.DISK_ONLY)},
    }
    oldest = kept["cached"].rdds[0]
    wait_for(lambda: not oldest.getStorageLevel().useMemory, "the oldest RDD is not kept any more")


def test_checkpoints_are_made_at_their_interval_and_deleted_when_a_younger_one_is_there(
    run_outputs: Any, wait_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise older checkpoints still refer to the file.
    monkeypatch.setattr(checkpoint_store, "_RETAINED", 1)
    made: list[Kept] = []
    run_outputs(lambda stream: made.append(Kept(stream.map(str).checkpoint(2))), [[n] for n in range(8)])
    assert made[0].batches == [[str(n)] for n in range(8)]
    rdds = made[0].rdds
    assert [rdd.isCheckpointed() for rdd in rdds] == [False, True] * 4
    first, last = (Path(urlsplit(str(rdds[number].getCheckpointFile())).path) for number in (1, 7))
    # Remembered for twice the interval.
    wait_for(lambda: not first.exists(), "the oldest checkpoint is deleted")
    assert last.exists()


@pytest.mark.parametrize("interval", [0.5, 1.5])
def test_a_checkpoint_interval_is_a_multiple_of_the_slide(harness: StreamHarness, interval: float) -> None:
    with pytest.raises(ConfigurationError, match=r"must be a multiple of the slide duration, 1000 ms"):
        harness.run(lambda stream: stream.checkpoint(interval), [[1]])
