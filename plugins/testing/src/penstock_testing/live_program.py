"""The program of the live checks: ``python -m penstock_testing.live_program SPEC``, SPEC a file of JSON.

It counts the records of one stream by value, batch by batch, appends each batch as a line of JSON to a file, and stops
gracefully when a file appears. If the process that runs the checks ends first, the program is killed.
"""

from __future__ import annotations

import json
import operator
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from penstock import StreamingContext, ThreadReceiver
from penstock.spi import structure
from penstock_testing.columns import without_columns
from penstock_testing.live_subject import LiveSpec

_PAUSE_S = 0.005


class CountingReceiver(ThreadReceiver[int]):
    """Stores 0, 1, 2, … until it is stopped, and writes the count to a file.

    Args:
        path: the file for the count, written whenever the receiver ends.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def receive(self) -> None:
        number = 0
        try:
            while not self.wait(_PAUSE_S):
                self.store(number)
                number += 1
        finally:
            Path(self._path).write_text(str(number))


def main(spec_file: str) -> None:
    """Run the program until its stop file appears."""
    from pyspark import SparkConf, SparkContext

    end_with_standard_input()
    spec = structure(json.loads(Path(spec_file).read_text()), LiveSpec)
    folder = Path(spec.folder)

    def set_up() -> StreamingContext:
        conf = SparkConf().setMaster("local[4]").setAppName("live check").setAll(list(spec.conf.items()))
        ssc = StreamingContext(SparkContext(conf=conf), spec.interval_s)
        if spec.checkpoint:
            ssc.checkpoint(spec.checkpoint)
        counting = CountingReceiver(str(folder / "numbers"))
        tested: Any = spec.receiver or (pickle.loads(Path(spec.pickled).read_bytes()) if spec.pickled else counting)
        _counted(ssc.receiverStream(tested), _Append(str(folder), "tested"), spec.assigned_columns)
        if spec.beside:
            _counted(ssc.receiverStream(counting), _Append(str(folder), "beside"))
        return ssc

    ssc = StreamingContext.getOrCreate(spec.checkpoint, set_up) if spec.checkpoint else set_up()
    ssc.start()
    while not (folder / "stop").exists():
        if ssc.awaitTerminationOrTimeout(0.05):
            return
    ssc.stop(stopGracefully=True)


def end_with_standard_input() -> None:
    """Kill this program with its JVM and its workers when standard input ends, whose other end the kit holds.

    The kit kills a program at the end of its check, unless it is interrupted or killed itself.
    """

    def watch() -> None:
        os.read(0, 1)  # not sys.stdin, which a daemon thread would hold at the exit of the interpreter
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="penstock kit end of the checks", daemon=True).start()


def _counted(stream: Any, output: Callable[[datetime, Any], None], assigned_columns: Sequence[str] = ()) -> None:
    # As countByValue, with one reduce task.
    pairs = stream.map(lambda record: (repr(without_columns(record, assigned_columns)), 1))
    pairs.reduceByKey(operator.add, 1).foreachRDD(output)


@frozen
class _Append:
    """Appends a batch's counts to the output."""

    folder: str
    stream: str

    def __call__(self, time: datetime, rdd: Any) -> None:
        line = {"time_ms": round(time.timestamp() * 1000), "stream": self.stream, "counts": dict(rdd.collect())}
        with (Path(self.folder) / "batches.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
