"""Measure the throughput of one batch over the size of its partitions, and draw it.

usage: partition_size.py [MEGABYTES] [ROUNDS]      by default: 64 MB, 5 rounds
       partition_size.py --plot TABLE.json SVG     draw an earlier run again

One batch of text lines of about 100 bytes, in blocks of 256 KB, runs on `local[2]` (both slots free) as count, grep and
word count (`flatMap · map · reduceByKey`); the partitions of the batch have 256 KB to the whole batch. The rounds go
through all sizes alternately, and the fastest counts. Prints a table in MB/s and writes the figures to
`partition_size.json`; with matplotlib installed it draws `docs/partition-size.svg`.
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

from penstock.blocks import arrow_form
from penstock.blocks.block import Block, BlockReference
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.spark.cluster import use_this_python
from penstock.spark.rdds import BlocksRDD, PartitionSlots, shuffled
from penstock.track.batch_partitions import Located, PartitionBounds, pack
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks, ReadPartition
from penstock.worker.combine import Buckets, Combiner, CombineValues, CountRecords, MergeChunks
from penstock.worker.functions import same
from penstock.worker.fused import FusedChain, Step

sys.path.insert(0, str(Path(__file__).parent))
from fused import make_lines

SLOTS, BLOCK_LINES = 2, 2560
PLOT = Path(__file__).parents[1] / "docs" / "partition-size.svg"
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
    sc = SparkContext(conf=conf.set("spark.python.unix.domain.socket.enabled", "true"))
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
        slots, read = PartitionSlots(sc), ReadBlocks(Token.generate())
        best: dict[str, dict[int, float]] = {work: {} for work in WORKS}
        for number_of_round in range(rounds + 1):
            for number in numbers:
                partitions = pack(located, SLOTS, PartitionBounds(1, 1, number))
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


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| partitions | size | " + " | ".join(f"{work}, MB/s" for work in WORKS) + " |", "|---|---|---|---|---|"]
    for number in found["speeds"]["count"]:
        size = found["bytes"] / int(number) / 1e6
        cells = " | ".join(f"{found['speeds'][work][number]:.0f}" for work in WORKS)
        lines.append(f"| {number} | {size:.2f} MB | {cells} |")
    return "\n".join(lines)


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw throughput over partition size."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for work, speeds in found["speeds"].items():
        sizes = [found["bytes"] / int(number) / 1e6 for number in speeds]
        axes.plot(sizes, list(speeds.values()), marker="o", label=work)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.axvline(found["bytes"] / SLOTS / 1e6, color="grey", linestyle=":", label="batch size / free slots")
    axes.set_xlabel("partition size, MB")
    axes.set_ylabel("throughput of the batch, MB/s")
    axes.set_title(f"One batch of {found['bytes'] / 1e6:.0f} MB on {SLOTS} free slots")
    axes.legend()
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


def main(arguments: list[str]) -> None:
    """Measure, or draw an earlier run."""
    if arguments[:1] == ["--plot"]:
        draw(json.loads(Path(arguments[1]).read_text()), Path(arguments[2]))
        return
    megabytes, rounds = (int(text) for text in (*arguments, *("64", "5")[len(arguments) :]))
    found = measure(megabytes, rounds)
    Path("partition_size.json").write_text(json.dumps(found))
    print(table(found))
    try:
        draw(found, PLOT)
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
