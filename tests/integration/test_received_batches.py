"""Records from a receiver on an executor, through blocks and batches, to an output."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from tests.helpers import engine_of

from penstock import AsyncReceiver, StreamingContext, ThreadReceiver
from penstock.track.block_locations import BlockLocations
from penstock.wire.token import Tls

pytestmark = pytest.mark.spark


class Singly(ThreadReceiver[Any]):
    """Stores its records one by one, then idles."""

    def __init__(self, records: Iterable[Any]) -> None:
        self.records = list(records)

    def receive(self) -> None:
        for record in self.records:
            self.store(record)


class SinglyThenNotes(Singly):
    """Stores its records one by one, then creates a file."""

    def __init__(self, records: Iterable[Any], stored: Path) -> None:
        super().__init__(records)
        self.stored = stored

    def receive(self) -> None:
        super().receive()
        self.stored.touch()


class AtOnce(Singly):
    """Stores its records reliably."""

    def receive(self) -> None:
        self.store_all(iter(self.records))


class Columnar(Singly):
    """Stores a table."""

    def receive(self) -> None:
        self.store_arrow(pa.table({"word": self.records, "length": [len(word) for word in self.records]}))


class Asynchronous(AsyncReceiver[Any]):
    """Stores from an event loop."""

    async def receive(self) -> None:
        import asyncio

        for number in range(10):
            await asyncio.sleep(0)
            self.store(number)


def test_words_are_counted(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]) -> None:
    lines = ssc.receiverStream(Singly(["to be or not to be", "that is the question"] * 500))
    counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    batches = collect(counts)
    ssc.start()
    wait_for(lambda: sum(count for _, count in batches.records) >= 5000, "5,000 words")
    total: Counter[str] = Counter()
    for word, count in batches.records:
        total[word] += count
    often, rare = ("to", "be"), ("or", "not", "that", "is", "the", "question")
    assert total == {**dict.fromkeys(often, 1000), **dict.fromkeys(rare, 500)}


def test_records_of_every_kind_come_out_as_they_went_in(
    ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]
) -> None:
    records = ["text", b"bytes", 7, 2**80, 1.5, True, None, ("a", 1), {"k": [1, 2]}, "\ud800"]
    batches = collect(ssc.receiverStream(AtOnce(records)))
    ssc.start()
    wait_for(lambda: len(batches.records) >= len(records), "all records")
    assert batches.records == records
    assert list(map(type, batches.records)) == list(map(type, records))


def test_a_table_reads_as_rows(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]) -> None:
    batches = collect(ssc.receiverStream(Columnar(["a", "bcd"])).map(lambda row: (row.word, row["length"])))
    ssc.start()
    wait_for(lambda: len(batches.records) >= 2, "two rows")
    assert batches.records == [("a", 1), ("bcd", 3)]


def test_an_async_receiver_receives(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]) -> None:
    batches = collect(ssc.receiverStream(Asynchronous()))
    ssc.start()
    wait_for(lambda: len(batches.records) >= 10, "ten numbers")
    assert batches.records == list(range(10))


def test_two_receivers_unite(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]) -> None:
    left, right = ssc.receiverStream(AtOnce(range(100))), ssc.receiverStream(Singly(range(100, 200)))
    batches = collect(left.union(right))
    ssc.start()
    wait_for(lambda: len(batches.records) >= 200, "both streams' records")
    assert sorted(batches.records) == list(range(200))


def test_a_graceful_stop_processes_records_that_are_in_no_block_yet(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None], tmp_path: Path
) -> None:
    # No block is cut before the stop: all records are in the receiver's buffer then.
    ssc = make_ssc(0.5, conf={"spark.streaming.blockInterval": "1h"})
    batches = collect(ssc.receiverStream(SinglyThenNotes(range(1000), tmp_path / "stored")))
    ssc.start()
    wait_for((tmp_path / "stored").exists, "the last record is stored")
    assert batches.records == []
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    assert batches.records == list(range(1000))


def pretend_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task finds a block's file where it is."""
    references = BlockLocations.references

    def without_files(locations: BlockLocations, blocks: Any) -> Any:
        located = references(locations, blocks)
        return [
            (host, num_bytes, evolve(reference, path="/not/on/this/host")) for host, num_bytes, reference in located
        ]

    monkeypatch.setattr(BlockLocations, "references", without_files)


def test_blocks_of_another_host_are_fetched(
    ssc: StreamingContext, collect: Any, wait_for: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_other_hosts(monkeypatch)
    batches = collect(ssc.receiverStream(AtOnce(range(1000))))
    ssc.start()
    wait_for(lambda: len(batches.records) >= 1000, "1,000 numbers")
    assert batches.records == list(range(1000))


def test_the_last_batches_of_a_graceful_stop_fetch_blocks_from_other_hosts(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None], monkeypatch: Any
) -> None:
    pretend_other_hosts(monkeypatch)
    ssc = make_ssc(1.0)
    monkeypatch.setattr("penstock.spark.cluster.is_on_this_machine", lambda _sc: False)
    batches = collect(ssc.receiverStream(AtOnce(range(1000))).map(slowly))
    ssc.start()
    wait_for(lambda: engine_of(ssc).tracker.backlog.num_bytes, "the block")
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    assert batches.records == list(range(1000))


def slowly(number: int) -> int:
    if number == 0:
        time.sleep(0.5)
    return number


def test_connections_can_use_tls(
    make_ssc: Callable[..., StreamingContext],
    make_tls: Callable[[str], Tls],
    collect: Any,
    wait_for: Callable[..., None],
) -> None:
    tls = make_tls("ours")
    prefix = "spark.penstock.wire.tls."
    ssc = make_ssc(conf={prefix + name: getattr(tls, name) for name in ("certificate", "key", "authority")})
    batches = collect(ssc.receiverStream(AtOnce(range(10))))
    ssc.start()
    wait_for(lambda: len(batches.records) >= 10, "ten numbers")
    assert batches.records == list(range(10))


def test_contexts_of_one_application_do_not_share_blocks(
    make_ssc: Callable[..., StreamingContext], sc: Any, wait_for: Callable[..., None]
) -> None:
    paths = []
    for _ in range(2):
        ssc = make_ssc()
        seen: list[str] = []
        ssc.receiverStream(AtOnce(["a"])).foreachRDD(lambda rdd, seen=seen: seen.extend(rdd.collect()))
        ssc.start()
        wait_for(lambda seen=seen: seen, "the record")
        tracker = engine_of(ssc).tracker
        # Blocks are in files by an internal layout; only the tracker knows their folder.
        (directory,) = tracker._locations._directories
        paths.append(directory)
        ssc.stop(stopSparkContext=False)
        assert not directory.exists()
    assert paths[0] != paths[1]


def test_old_blocks_are_deleted(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]) -> None:
    batches = collect(ssc.receiverStream(AtOnce(range(10))))
    ssc.start()
    wait_for(lambda: len(batches.records) >= 10, "ten numbers")
    tracker = engine_of(ssc).tracker
    wait_for(lambda: not tracker.blocks.state.retained(), "the batch to be cleaned up")
