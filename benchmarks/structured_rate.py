"""Rate control of a streaming query: ``python -m benchmarks.structured_rate pid model [--seconds 60] [--svg DIR]``.

The receiver ``synthetic`` makes records as fast as it may. ``foreachBatch`` takes 50 ms and 1 s for every 20,000
records; after a third of the run this drops to 10,000 records, and after two thirds it is 20,000 again. ``steer`` sets
the rate for triggers of 1 s, by one estimator after the other.

For each third it prints in which batch it settled (no later batch took longer than 1.25 s), the share of the capacity
that was used in the last half of the third, and every batch. ``--svg`` draws them.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from attrs import define

from penstock_testing import workload_svg
from penstock_testing.workload import Workload
from penstock_testing.workload_run import SimulatedBatch, WorkloadRun

INTERVAL_S = 1.0
CAPACITY = 20_000.0
FIXED_S = 0.05
FIRST_RATE = 5_000
# A batch of a settled query takes no longer.
SETTLED_S = 1.25
STOP_S = 30.0


@define
class Batch:
    """One batch: when it began and how long it took, s; its records; the rate limit after it, records/s."""

    began_s: float
    records: int
    took_s: float
    rate: float = 0.0  # as before


def capacity(elapsed_s: float, seconds: float) -> float:
    """Records/s of ``foreachBatch``, beyond what a batch costs anyway."""
    return CAPACITY / 2 if seconds / 3 <= elapsed_s < 2 * seconds / 3 else CAPACITY


def run(estimator: str, seconds: float) -> list[Batch]:
    """Run the query; return its batches."""
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from penstock_cli.java import ensure_java
    from penstock_structured import steer

    ensure_java()
    # Where Spark looks for the data source.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    folder = tempfile.TemporaryDirectory(prefix="penstock-structured-rate-", ignore_cleanup_errors=True)
    source = spark.readStream.format("penstock").schema("value LONG").option("receiver", "synthetic")
    source = source.option("rate", 0).option("shape", "numbers").option("blocks", folder.name)
    batches: list[Batch] = []
    started_s = time.time()

    def work(frame: DataFrame, _batch_id: int) -> None:
        began_s = time.time()
        count = frame.count()
        if not batches:
            nonlocal started_s
            started_s = began_s
        # The counting itself is part of the fixed cost of a batch.
        left_s = max(FIXED_S - (time.time() - began_s), 0.0) + count / capacity(began_s - started_s, seconds)
        time.sleep(left_s)
        batches.append(Batch(began_s - started_s, count, time.time() - began_s))

    query = (
        source.option("initialRate", FIRST_RATE)
        .load()
        .writeStream.foreachBatch(work)
        .trigger(processingTime=f"{INTERVAL_S} seconds")
        .start()
    )
    steering = steer(spark, query, estimator, interval=INTERVAL_S)

    class Rates(StreamingQueryListener):
        """Notes the rate after each batch; called after the steering."""

        def onQueryStarted(self, event: Any) -> None:
            """Nothing to note."""

        def onQueryIdle(self, event: Any) -> None:
            """Nothing to note."""

        def onQueryTerminated(self, event: Any) -> None:
            """Nothing to note."""

        def onQueryProgress(self, event: Any) -> None:
            """Note the rate."""
            if batches:
                batches[-1].rate = next(iter(steering.rates.values()), float(FIRST_RATE))

    spark.streams.addListener(Rates())
    deadline = time.monotonic() + seconds + STOP_S
    while query.isActive and time.monotonic() < deadline and (not batches or time.time() - started_s < seconds):
        time.sleep(0.1)
    error = query.exception()
    query.stop()
    spark.stop()
    folder.cleanup()
    if error is not None or not batches:
        raise SystemExit(f"FAILED: the query ended: {error}")
    # The report of a batch may come when the next one has ended, or not before the query.
    rate = float(FIRST_RATE)
    for batch in batches:
        rate = batch.rate = batch.rate or rate
    return batches


def report(batches: list[Batch], seconds: float) -> None:
    """Print the results of each third."""
    for number, name in enumerate(("20,000/s", "10,000/s", "20,000/s again")):
        begin, end = seconds * number / 3, seconds * (number + 1) / 3
        part = [batch for batch in batches if begin <= batch.began_s < end]
        late = [index for index, batch in enumerate(part) if batch.took_s > SETTLED_S]
        settled = late[-1] + 1 if late else 0
        half = [batch for batch in part if batch.began_s >= (begin + end) / 2]
        span_s = half[-1].began_s - half[0].began_s if len(half) > 1 else 0.0
        used = sum(batch.records for batch in half[:-1]) / (capacity(begin, seconds) * span_s) if span_s else 0.0
        print(
            f"{name}: {len(part)} batches, settled in batch {settled + 1 if settled < len(part) else 'none'}, "
            f"longest {max((batch.took_s for batch in part), default=0):.2f} s, after settling "
            f"{max((batch.took_s for batch in part[settled:]), default=0):.2f} s, "
            f"capacity used in the last half {used:.0%}"
        )
    for batch in batches:
        print(
            f"  {batch.began_s:5.1f} s  {batch.records:7d} records  took {batch.took_s:.2f} s  then {batch.rate:8.0f}/s"
        )


def draw(name: str, batches: list[Batch], seconds: float) -> str:
    """The rate limit, duration and wait of each batch as SVG."""
    drawn = []
    waits_s = 0.0
    for batch in batches:
        attainable = capacity(batch.began_s, seconds) * (INTERVAL_S - FIXED_S)
        took_ms, waits_ms = round(batch.took_s * 1000), round(waits_s * 1000)
        drawn.append(SimulatedBatch((batch.records,), (batch.rate,), waits_ms, took_ms, attainable))
        waits_s = max(batch.took_s - INTERVAL_S, 0.0)
    workload = Workload("query", "a streaming query", ((0, CAPACITY),), (((0, math.inf),),), batches=len(batches))
    return workload_svg.draw(WorkloadRun(workload, tuple(drawn), 0, ()), f"{name}: capacity halved, then doubled")


def main() -> None:
    """Run, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimators", nargs="+", choices=("pid", "model"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--svg", type=Path, help="folder for drawings, structured-rate-ESTIMATOR.svg")
    options = parser.parse_args()
    for name in options.estimators:
        batches = run(name, options.seconds)
        print(name)
        report(batches, options.seconds)
        sys.stdout.flush()
        if options.svg:
            drawing = draw(name, batches, options.seconds)
            (options.svg / f"structured-rate-{name}.svg").write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main()
