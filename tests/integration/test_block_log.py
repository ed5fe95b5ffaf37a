"""The block log in a real program: blocks are in the checkpoint directory, and outlive who stored them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import engine_of, kill

from penstock import Receiver, StreamingContext, ThreadReceiver
from penstock.errors import ConfigurationError
from penstock.receive.receiver_task import local_directory

pytestmark = pytest.mark.spark

LOG = {"spark.streaming.receiver.writeAheadLog.enable": "true"}


class Hundred(Receiver[str]):
    """Stores 100 records in 10 blocks."""

    def onStart(self) -> None:
        for group in range(10):
            self.store_all([f"record {10 * group + n}" for n in range(10)])


class Acknowledges(ThreadReceiver[tuple[int, int]]):
    """Stores its process and a number, and notes what is accepted."""

    def __init__(self, accepted: Path) -> None:
        self._accepted = accepted

    def receive(self) -> None:
        number = 0
        while not self.wait(0.01):
            self.store_all([(os.getpid(), number)])
            with self._accepted.open("a") as accepted:
                accepted.write(f"{os.getpid()} {number}\n")
            number += 1


def blocks(directory: Path) -> list[Path]:
    return sorted((directory / "receivedData").glob("*/input-*"))


def test_blocks_are_in_the_log_until_their_batch_is_done(
    make_ssc: Callable[..., StreamingContext], wait_for: Callable[..., None], tmp_path: Path
) -> None:
    ssc = make_ssc(conf=LOG)
    ssc.checkpoint(str(tmp_path))
    counts: list[int] = []
    read: set[Path] = set()

    def note(rdd: Any) -> None:
        read.update(blocks(tmp_path))
        counts.append(rdd.count())

    stream = ssc.receiverStream(Hundred())
    stream.foreachRDD(note)
    ssc.start()
    wait_for(lambda: sum(counts) >= 100, "all records")
    wait_for(lambda: not blocks(tmp_path), "files are deleted")
    ssc.stop(stopSparkContext=False)
    assert sum(counts) == 100
    assert len(read) == 10
    assert {path.parent for path in read} == {tmp_path / "receivedData" / "0"}
    assert {path.suffix for path in read} == {".arrow"}


def test_what_was_accepted_before_a_receiver_is_killed_is_processed(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None], tmp_path: Path
) -> None:
    ssc = make_ssc(1.0, conf=LOG)
    ssc.checkpoint(str(tmp_path / "check"))
    accepted = tmp_path / "accepted"
    accepted.touch()
    batches = collect(ssc.receiverStream(Acknowledges(accepted)))
    ssc.start()

    def said() -> list[tuple[int, ...]]:
        # The last line may be half written.
        return [tuple(map(int, line.split())) for line in accepted.read_text().splitlines(True) if line[-1] == "\n"]

    wait_for(lambda: len(said()) > 20, "the first blocks")
    victim = said()[0][0]
    assert kill(victim)
    wait_for(lambda: said()[-1][0] != victim, "blocks of another process")
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    assert set(said()) <= set(batches.records)
    assert len(set(batches.records)) == len(batches.records)


def test_the_write_ahead_log_needs_a_checkpoint_directory(make_ssc: Callable[..., StreamingContext]) -> None:
    ssc = make_ssc(conf=LOG)
    ssc.receiverStream(Hundred()).pprint()
    with pytest.raises(ConfigurationError, match=r"ssc\.checkpoint\(directory\)"):
        ssc.start()


class StoresOnce(Receiver[int]):
    """Stores in its first process only; then says which one that is, and where blocks lie without a log."""

    def __init__(self, stored: Path) -> None:
        self._stored = stored

    def onStart(self) -> None:
        if not self._stored.exists():
            self.store_all(range(1000))
            aside = self._stored.with_suffix(".aside")
            aside.write_text(f"{os.getpid()} {local_directory('any').parent}")
            aside.rename(self._stored)


def test_blocks_are_read_when_the_process_that_stored_them_is_gone(
    make_ssc: Callable[..., StreamingContext], wait_for: Callable[..., None], tmp_path: Path
) -> None:
    ssc = make_ssc(conf=LOG)
    ssc.checkpoint(str(tmp_path / "check"))
    ssc.remember(600)
    rdds: list[Any] = []
    stored = tmp_path / "stored"
    ssc.receiverStream(StoresOnce(stored)).foreachRDD(lambda rdd: rdds.append(rdd) if rdd.getNumPartitions() else None)
    ssc.start()
    wait_for(lambda: rdds and stored.exists(), "a batch of all")
    pid, local = stored.read_text().split()
    # An executor would take this directory along. No public name shows the identifier of the run.
    kept = list((Path(local) / engine_of(ssc).tracker._launcher.run_id).rglob("*.arrow"))
    assert kill(int(pid))
    wait_for(lambda: engine_of(ssc).tracker.receiver_infos()[0].active is False, "its end is known")
    assert [record for rdd in rdds for record in rdd.collect()] == list(range(1000))
    assert kept == []
