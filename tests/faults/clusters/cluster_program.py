"""A program as a user writes it, for ``test_cluster``: counts words, and collects the numbers that its receiver stored.

Imports nothing of the tests. Arguments: the file in which the receiver notes what it stored, the checkpoint directory;
then ``uncounted`` to leave the words out, with which no batch without records starts a Python worker, or a module whose
function ``word`` makes them.
Prints a line for each launch of the receiver, and one JSON object at the end.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from operator import add
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from penstock import StoreError, StreamingContext, StreamingListener, ThreadReceiver


class Counting(ThreadReceiver[int]):
    """Stores numbers reliably, and continues after the last one that an earlier launch stored."""

    def __init__(self, notes: str) -> None:
        self.notes = notes

    def receive(self) -> None:
        """Store numbers until the stop."""
        Path(f"{self.notes}.plugins").write_text(
            " ".join(entry_point.name for entry_point in entry_points(group="penstock"))
        )
        with Path(self.notes).open("a+", buffering=1) as notes:
            notes.seek(0)
            number = len(notes.read().split())
            with Path(f"{self.notes}.begun").open("a") as begun:
                begun.write(f"{number}\n")
            while not self.wait(0.01):
                try:
                    self.store_all([number])
                except StoreError as error:
                    Path(f"{self.notes}.refused").write_text(str(error))
                    raise
                notes.write(f"{number}\n")
                number += 1


class Launches(StreamingListener):
    """Prints where the receiver is started, and when it is no longer active."""

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        """Print the executor."""
        print("receiver on", receiverStarted.receiverInfo.executorId, flush=True)

    def onReceiverStopped(self, receiverStopped: Any) -> None:
        """Print that it is not active any more."""
        print("receiver stopped", flush=True)

    def onReceiverError(self, receiverError: Any) -> None:
        """Print the error."""
        print("error:", receiverError.receiverInfo.lastErrorMessage, flush=True)


def word(number: int) -> str:
    """One of three words."""
    return f"word {number % 3}"


def at_its_place(pairs: Iterable[tuple[str, int]]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """A partition with the directory of the executor that computes it."""
    yield str(Path.cwd()), list(pairs)


if __name__ == "__main__":
    sc = SparkContext()
    sc.setLogLevel("OFF")
    ssc = StreamingContext(sc, 1)
    ssc.checkpoint(sys.argv[2])
    ssc.addStreamingListener(Launches())
    numbers = ssc.receiverStream(Counting(sys.argv[1]))
    seen: list[int] = []
    counts: dict[str, int] = {}
    places: set[str] = set()

    def count(rdd: Any) -> None:
        """Count the words of a batch."""
        for place, pairs in rdd.collect():
            places.add(place)
            for each, number in pairs:
                counts[each] = counts.get(each, 0) + number

    numbers.foreachRDD(lambda rdd: seen.extend(rdd.collect()))
    (option,) = sys.argv[3:] or [""]
    if option != "uncounted":
        to_word = importlib.import_module(option).word if option else word
        words = numbers.map(lambda number: (to_word(number), 1)).reduceByKey(add, 4)
        words.mapPartitions(at_its_place).foreachRDD(count)
    ssc.start()
    # The token is a secret: no public name shows it.
    token: str = ssc._engine.tracker._launcher.token.secret  # type: ignore[union-attr]
    shown = [path for path in Path("/proc").glob("[0-9]*/cmdline") if token in path.read_text(errors="replace")]
    print("started", flush=True)
    ssc.awaitTermination()
    report = {"name": sc.appName, "seen": sorted(seen), "counts": counts, "shown": len(shown)}
    print(json.dumps({**report, "places": sorted(places)}), flush=True)
    ssc.stop()
