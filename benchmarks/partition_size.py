"""Measure the throughput of one batch over the size of its partitions, and draw it.

usage: python -m benchmarks.partition_size [MEGABYTES] [ROUNDS]     by default: 64 MB, 5 rounds
       python -m benchmarks.partition_size --plot                   draw the last run again

One batch of text lines of about 100 bytes, in blocks of 256 KB, runs on `local[2]` (both slots free) as count, grep and
word count (`flatMap · map · reduceByKey`); the partitions of the batch have 256 KB to the whole batch. The rounds go
through all sizes alternately, and the fastest counts. Prints a table in MB/s and writes the figures to
`build/partition-size.json`; with matplotlib installed it draws `docs/partition-size.svg`.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
import time
from operator import add
from pathlib import Path
from typing import Any

from pyspark import RDD, SparkConf, SparkContext

from benchmarks import plots
from benchmarks.fused import make_lines
from benchmarks.measurement import ROOT
from penstock.blocks import arrow_form
from penstock.blocks.block import Block, BlockReference
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.spark.cluster import use_this_python
from penstock.spark.rdds import BlocksRDD, PlaceholderRdds, shuffled
from penstock.track.batch_partitions import Located, PartitionBounds, partitions_of
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks, ReadPartition
from penstock.worker.combine import Buckets, Combiner, CombineValues, CountRecords, MergeChunks
from penstock.worker.functions import same
from penstock.worker.fused import FusedChain, Step

SLOTS, BLOCK_LINES = 2, 2560
FIGURES, PLOT = ROOT / "build" / "partition-size.json", ROOT / "docs" / "partition-size.svg"
#: `spark.penstock.partition.minBytes`: a batch of twice this size may have 2 partitions.
MIN_BYTES = 1 << 20
SUM = Combiner(same, add, add, 512.0)
WORDS = (Step("flatMap", str.split), Step("map", lambda word: (word, 1)), CombineValues(SUM))


def reduced(rdd: RDD[Any], number: int) -> RDD[Any]:
    """The word count of a batch: in one stage if it has a single partition."""
    if number == 1:
        return rdd.mapPartitionsWithIndex(FusedChain(WORDS))
    chunks = rdd.mapPartitionsWithIndex(FusedChain((*WORDS, Buckets(SLOTS))))
    return shuffled(chunks, SLOTS).mapPartitionsWithIndex(FusedChain((MergeChunks(SUM),)), True)


WORKS = {
    "count": lambda rdd, _number: rdd.count(),
    "grep": lambda rdd, _number: rdd.mapPartitionsWithIndex(
        FusedChain((Step("filter", lambda line: "qu" in line), CountRecords()))
    ).sum(),
    "word count": lambda rdd, number: len(reduced(rdd, number).collect()),
}


def measure(megabytes: int, rounds: int) -> dict[str, Any]:
    """Run everything; MB/s by work and number of partitions."""
    conf = SparkConf().setMaster(f"local[{SLOTS}]").setAppName("partition size").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.python.unix.domain.socket.enabled", "true")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    use_this_python(sc)
    with tempfile.TemporaryDirectory() as folder:
        handler, lines = LocalBlockHandler(Path(folder) / "blocks"), make_lines(BLOCK_LINES)
        located: list[Located] = []
        total = 0
        while total < megabytes << 20:
            stored = handler.store(Block(f"b{len(located)}", 0, len(lines), arrow_form.encode(lines)))
            located.append(("", stored.num_bytes, BlockReference(stored.block_id, stored.path, len(lines), "")))
            total += stored.num_bytes
        numbers = [2**power for power in range(12) if 2**power <= len(located)]
        slots, read = PlaceholderRdds(sc), ReadBlocks(Token.generate())
        best: dict[str, dict[int, float]] = {work: {} for work in WORKS}
        for number_of_round in range(rounds + 1):
            for number in numbers:
                partitions = partitions_of(located, SLOTS, PartitionBounds(1, 1, number))
                payloads = tuple(pickle.dumps(partition.element) for partition in partitions)
                for work, run in WORKS.items():
                    rdd = BlocksRDD(
                        slots.at([()] * len(partitions)),
                        len(partitions),
                        ReadPartition(read, payloads),
                        FusedChain((CountRecords(),)),
                    )
                    began = time.perf_counter()
                    run(rdd, len(partitions))
                    took = time.perf_counter() - began
                    if number_of_round:  # the first one warms up
                        best[work][number] = max(best[work].get(number, 0.0), total / took / 1e6)
    sc.stop()
    return {"bytes": total, "speeds": best}


def table(results: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| partitions | size | " + " | ".join(f"{work}, MB/s" for work in WORKS) + " |", "|---|---|---|---|---|"]
    for number in results["speeds"]["count"]:
        size = results["bytes"] / int(number) / 1e6
        cells = " | ".join(f"{results['speeds'][work][number]:.0f}" for work in WORKS)
        lines.append(f"| {number} | {size:.2f} MB | {cells} |")
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw throughput over partition size."""
    figure, axes = plots.new_figure()
    for work, speeds in results["speeds"].items():
        sizes = [results["bytes"] / int(number) / 1e6 for number in speeds]
        axes.plot(sizes, list(speeds.values()), "o-", label=work)
    axes.axvline(
        results["bytes"] / SLOTS / 1e6, color="grey", linestyle="--", label="batch size / free slots: the rule"
    )
    axes.axvline(MIN_BYTES / 1e6, color="grey", linestyle=":", label="spark.penstock.partition.minBytes")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
    axes.set_xlabel("partition size, MB")
    axes.set_ylabel("throughput of the batch, MB/s")
    axes.set_title(f"One batch of {results['bytes'] / 1e6:.0f} MB on {SLOTS} free slots")
    axes.legend(fontsize=8)
    plots.save(figure, path)


def main(arguments: list[str]) -> None:
    """Measure, or draw the last run."""
    if arguments != ["--plot"]:
        megabytes, rounds = (int(text) for text in (*arguments, *("64", "5")[len(arguments) :]))
        results = measure(megabytes, rounds)
        FIGURES.parent.mkdir(exist_ok=True)
        FIGURES.write_text(json.dumps(results))
    results = json.loads(FIGURES.read_text())
    print(table(results))
    if missing := plots.reason_not_available():
        print(f"no plot: {missing}", file=sys.stderr)
    else:
        draw(results, PLOT)


if __name__ == "__main__":
    main(sys.argv[1:])
