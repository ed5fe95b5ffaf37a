"""Measures the cost of the monitoring plugin, as processing delays with and without: ``python -m benchmarks.ui_cost``.

Programs with and without `penstock-ui` run alternately in one JVM, each for the same number of batches of the machine's
clock. A receiver stores 10,000 lines/s; each batch reduces them by key, which is one short Spark job.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from operator import add
from typing import Any

import click
from attrs import frozen
from pyspark import SparkConf, SparkContext

from benchmarks import machine
from penstock import BatchInfo, StreamingContext, StreamingListener
from penstock_cli.java import ensure_java

_BOUND = 1.03
# Batches to leave out: a program's first ones, which fill caches, and the slowest ones, which other programs delayed.
_WARM_UP, _SLOWEST = 20, 0.05
_DEADLINE_S = 120.0


@frozen
class Block:
    """One program.

    Attributes:
        delay_ms: mean processing delay.
        cpu_ms: processor time of the Python driver per batch.
    """

    delay_ms: float
    cpu_ms: float


class Completed(StreamingListener):
    """Collects the batches that completed."""

    def __init__(self) -> None:
        self.infos: list[BatchInfo] = []

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        """Collect a batch."""
        self.infos.append(batchCompleted.batchInfo)


def mean_delay_ms(delays: Sequence[int]) -> float:
    """The mean without the slowest twentieth. Delays are whole milliseconds, so a median would be too coarse."""
    ordered = sorted(delays)
    return statistics.fmean(ordered[: len(ordered) - int(_SLOWEST * len(ordered))])


def run(sc: SparkContext, batches: int, interval_s: float, conf: dict[str, str]) -> Block:
    """Run one program.

    Raises:
        TimeoutError: the batches did not complete in time.
    """
    settings: Any = sc._conf  # the configuration of the next StreamingContext, which has no other way to get one
    for key, value in conf.items():
        settings.set(key, value)
    ssc, completed = StreamingContext(sc, interval_s), Completed()
    lines = ssc.receiverStream("synthetic", rate=10_000.0)
    lines.map(lambda line: (len(line) % 10, 1)).reduceByKey(add).foreachRDD(lambda rdd: rdd.collect())
    ssc.addStreamingListener(completed)
    ssc.start()
    deadline = time.monotonic() + batches * interval_s * 2 + _DEADLINE_S
    cpu_s: float | None = None
    while len(completed.infos) < batches + _WARM_UP:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{batches} batches did not complete in time")
        ssc.awaitTerminationOrTimeout(min(interval_s, 0.2))
        if cpu_s is None and len(completed.infos) >= _WARM_UP:
            cpu_s, counted = _cpu_s(), len(completed.infos)
    cpu_ms = (_cpu_s() - (cpu_s or 0)) * 1000 / max(len(completed.infos) - counted, 1)
    ssc.stop(stopSparkContext=False)
    delays = [info.processingDelay for info in completed.infos[_WARM_UP : _WARM_UP + batches]]
    return Block(mean_delay_ms([delay for delay in delays if delay is not None]), cpu_ms)


def ratios(pairs: Sequence[tuple[Block, Block]]) -> list[float]:
    """Processing delay with the plugin over that without, of each round."""
    return [on.delay_ms / off.delay_ms for on, off in pairs]


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=8, show_default=True, type=click.IntRange(min=1), help="Pairs of programs.")
@click.option("--batches", default=100, show_default=True, type=click.IntRange(min=1), help="Of each program.")
@click.option("--interval", default=0.1, show_default=True, help="Batch interval in seconds.")
@click.option("--event-log", is_flag=True, help="With the event log, too.")
def main(rounds: int, batches: int, interval: float, event_log: bool) -> None:
    """Measure the processing delay with and without the monitoring plugin.

    Exits with 1 if the median of the rounds' ratios is above 1.03.
    """
    ensure_java()
    conf = SparkConf().setMaster("local[3]").setAppName("cost of penstock-ui").set("spark.ui.enabled", "false")
    conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.ui.showConsoleProgress", "false")
    conf.set("spark.penstock.ui.port", "0")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    pairs: list[tuple[Block, Block]] = []
    with tempfile.TemporaryDirectory() as directory:
        on = {"spark.penstock.ui.enabled": "true", "spark.penstock.eventLog.dir": directory if event_log else ""}
        off = {"spark.penstock.ui.enabled": "false", "spark.penstock.eventLog.dir": ""}
        run(sc, batches, interval, on)
        for number in range(rounds):
            # Alternate the order, so that growth over the run favours neither.
            order = (on, off) if number % 2 else (off, on)
            blocks = {chosen["spark.penstock.ui.enabled"]: run(sc, batches, interval, chosen) for chosen in order}
            pairs.append((blocks["true"], blocks["false"]))
            with_it, without = pairs[-1]
            click.echo(
                f"round {number + 1}: processing {without.delay_ms:.2f} ms without, {with_it.delay_ms:.2f} ms with: "
                f"{with_it.delay_ms / without.delay_ms:.3f}; "
                f"driver {without.cpu_ms:.2f} and {with_it.cpu_ms:.2f} ms per batch"
            )
        sc.stop()
    found_ratios = ratios(pairs)
    median = statistics.median(found_ratios)
    cpu = statistics.median(on.cpu_ms - off.cpu_ms for on, off in pairs)
    click.echo(f"machine: {machine.describe()}")
    click.echo(
        f"processing delay with penstock-ui over without: {median:.3f} (median of {rounds} rounds, "
        f"{min(found_ratios):.3f} to {max(found_ratios):.3f}); {cpu:+.2f} ms of the driver's processor time per batch"
    )
    sys.exit(median > _BOUND)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.ui_cost")
