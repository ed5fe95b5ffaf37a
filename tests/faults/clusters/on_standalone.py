"""A program for a standalone cluster, for ``test_standalone``: no task finds a block's file, all are fetched.

Prints one JSON object of what it saw. Runs in a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from attrs import evolve
from pyspark import SparkConf, SparkContext
from tests.helpers import engine_of, wait_for

from penstock import StreamingContext, ThreadReceiver
from penstock.track.block_locations import BlockLocations
from penstock_cli.java import ensure_java


class Counting(ThreadReceiver[int]):
    """Stores numbers reliably and writes down which."""

    def __init__(self, notes: str) -> None:
        self.notes = notes

    def receive(self) -> None:
        with Path(self.notes).open("w", buffering=1) as notes:
            number = 0
            while not self.wait(0.01):
                self.store_all([number])
                notes.write(f"{number}\n")
                number += 1


if __name__ == "__main__":
    references = BlockLocations.references

    def elsewhere(locations: BlockLocations, blocks: Any) -> Any:
        found = references(locations, blocks)
        return [(host, num_bytes, evolve(reference, path="/not/on/this/host")) for host, num_bytes, reference in found]

    setattr(BlockLocations, "references", elsewhere)  # noqa: B010 - type checkers do not let a method be assigned
    ensure_java()
    conf = SparkConf().setMaster(sys.argv[1]).setAppName("on standalone").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.python.unix.domain.socket.enabled", "true")
    conf.set("spark.driver.host", "127.0.0.1").set("spark.executor.memory", "512m")
    conf.set("spark.cores.max", "2").set("spark.executor.cores", "2")
    # Far above what a stop takes that waits for nothing.
    conf.set("spark.streaming.gracefulStopTimeout", "120s")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    # Long batches: the last one gets its blocks after the receiver has got its command to stop.
    ssc = StreamingContext(sc, 2)
    seen: list[int] = []
    ssc.receiverStream(Counting(sys.argv[2])).foreachRDD(lambda rdd: seen.extend(rdd.collect()))
    ssc.start()
    notes = Path(sys.argv[2])
    wait_for(lambda: seen and len(notes.read_text().split()) > len(seen), "a batch, and data for the next one", 120)
    before, started = len(seen), time.monotonic()
    info = engine_of(ssc).tracker.receiver_infos()[0]
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    took_s = time.monotonic() - started
    sc.stop()
    print(
        json.dumps(
            {
                "executor": info.executorId,
                "stored": [int(line) for line in notes.read_text().split()],
                "seen": seen,
                "before the stop": before,
                "stop took": took_s,
            }
        )
    )
