"""The second program of `make dist-test`: the core and one receiver plugin, without any other distribution.

A receiver that the plugin offers, a window and a checkpoint; then a second run recovers from the checkpoint. State and
windows per key are refused with the line to type. Any wrong result is an error.
"""

import importlib.metadata
import operator
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from pyspark import RDD, SparkConf, SparkContext

from penstock import ConfigurationError, DStream, State, StateSpec, StreamingContext

INSTALLED = {"penstock-core", "penstock-synthetic"}
RECORDS = 1000
_LIMIT_S = 120.0


class Program:
    """The streams of one run, and what its outputs saw last."""

    def __init__(self, sc: SparkContext, directory: str) -> None:
        self.sc = sc
        self.directory = directory
        self.in_window = 0
        self.complete = threading.Event()

    def create(self) -> StreamingContext:
        """Define the streams."""
        ssc = StreamingContext(self.sc, 1)
        ssc.checkpoint(self.directory)
        pairs: Any = ssc.receiverStream("synthetic", total=RECORDS).map(lambda _line: ("lines", 1))
        require_refusals(pairs)
        # Longer than the run, so that all records are in the last window.
        window = pairs.window(600, 1).reduceByKey(operator.add)
        window.foreachRDD(self._see_window)
        return ssc

    def _see_window(self, rdd: RDD[Any]) -> None:
        self.in_window = dict(rdd.collect()).get("lines", 0)
        if self.in_window >= RECORDS:
            self.complete.set()

    def run(self) -> None:
        """Run until every record is in the window."""
        ssc = StreamingContext.getOrCreate(self.directory, self.create)
        ssc.start()
        ended = self.complete.wait(_LIMIT_S)
        ssc.stop(stopSparkContext=False, stopGracefully=ended)


def count(_key: str, value: int, state: State[int]) -> int:
    """Count the records of a key."""
    state.update((state.getOption() or 0) + value)
    return state.get()


def require_refusals(pairs: DStream[tuple[str, int]]) -> None:
    """Check that without its plugin a stateful operator says what to install.

    Raises:
        SystemExit: it does not.
    """
    stateful: dict[str, Callable[[], object]] = {
        "updateStateByKey": lambda: pairs.updateStateByKey(lambda new, old: sum(new) + (old or 0)),
        "mapWithState": lambda: pairs.mapWithState(StateSpec.function(count)),
        "reduceByKeyAndWindow": lambda: pairs.reduceByKeyAndWindow(operator.add, None, 600, 1),
        "groupByKeyAndWindow": lambda: pairs.groupByKeyAndWindow(600, 1),
        "countByWindow": lambda: pairs.countByWindow(600, 1),
    }
    for name, create in stateful.items():
        try:
            create()
        except ConfigurationError as error:
            if not str(error).endswith(": pip install penstock-state"):
                sys.exit(f"{name} says something else: {error}")
        else:
            sys.exit(f"{name} works without its plugin")


def main() -> None:
    """Run the program, then recover it.

    Raises:
        SystemExit: another distribution is installed, or a result is wrong or missing.
    """
    names = {(distribution.name or "").lower().replace("_", "-") for distribution in importlib.metadata.distributions()}
    if (ours := {name for name in names if name.startswith("penstock")}) != INSTALLED:
        sys.exit(f"{sorted(ours)} are installed here, and not {sorted(INSTALLED)} alone")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The functions above refer to this program, which no checkpoint can hold.
    conf = SparkConf().set("spark.penstock.checkpoint.rebuild", "true")
    sc = SparkContext("local[3]", "core alone", conf=conf)
    sc.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory:
        first = Program(sc, directory)
        first.run()
        second = Program(sc, directory)
        second.run()
    sc.stop()
    seen = [program.in_window for program in (first, second)]
    # The receiver of the second run stores as many records again, at least.
    if seen[0] != RECORDS or seen[1] < RECORDS:
        sys.exit(f"records in the window, by run: {seen}, not {RECORDS} each")
    print(f"{', '.join(sorted(ours))}: a receiver, a window and a recovered checkpoint; {seen}")


if __name__ == "__main__":
    main()
