"""Profile word count from block to result, without Spark: nanoseconds of CPU time of each part.

usage: fused.py [LINES]     by default: 16,384 lines of about 100 bytes, in one block

Each row adds one part to the rows before it. The column "nested" is the same with one generator for each operator and
three dictionary accesses for each pair, as Penstock did before its chains were generated code; "generated" is what
Penstock does. The best of several alternating runs counts.
"""

from __future__ import annotations

import operator
import os
import pickle
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.blocks import arrow_form
from penstock.worker.combine import Buckets, Combiner, CombineValues, CountRecords, CountValues, MergeChunks
from penstock.worker.functions import same
from penstock.worker.fused import FusedChain, Step

ROUNDS, PARTITIONS = 15, 2


def make_lines(number: int, seed: int = 7) -> list[str]:
    """Lines of words from a vocabulary of 2,000."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(2000)]
    return [" ".join(rng.choices(vocabulary, k=14)) for _ in range(number)]


def split(line: str) -> list[str]:
    """The program's first function."""
    return line.split(" ")


def pair(word: str) -> tuple[str, int]:
    """The program's second function."""
    return word, 1


def plus(one: int, other: int) -> int:
    """The program's third function."""
    return one + other


def read(batches: list[pa.RecordBatch]) -> Iterator[str]:
    """The lines of a block."""
    return arrow_form.records(iter(batches))


def drained(records: Iterable[Any]) -> None:
    """Read everything."""
    deque(records, maxlen=0)


def nested_combine(records: Iterable[Any]) -> dict[Any, int]:
    """One combiner for each key, with a test, a read and a write for each pair."""
    combined: dict[Any, int] = {}
    for key, value in records:
        combined[key] = plus(combined[key], value) if key in combined else value
    return combined


def nested_pairs(records: Iterable[str]) -> Iterable[Any]:
    """``flatMap`` and ``map`` as generators."""
    return (pair(word) for word in (word for line in records for word in split(line)))


def nested_buckets(pairs: Iterable[Any]) -> list[bytes]:
    """PySpark's buckets of pairs."""
    from pyspark.core.rdd import portable_hash

    buckets: list[list[Any]] = [[] for _ in range(PARTITIONS)]
    for key, value in pairs:
        buckets[portable_hash(key) % PARTITIONS].append((key, value))
    return [pickle.dumps(bucket[n : n + 500]) for bucket in buckets for n in range(0, len(bucket), 500)]


def main(number: int) -> None:
    """Measure and print the table."""
    os.environ.setdefault("PYTHONHASHSEED", "0")
    lines = make_lines(number)
    words = sum(len(split(line)) for line in lines)
    batches = pa.table({"value": lines}).to_batches()
    combiner, added = (Combiner(same, f, f, 1e9) for f in (plus, operator.add))
    flat_map, mapped = Step("flatMap", split), Step("map", pair)

    def chain(*steps: Any) -> Callable[[], None]:
        return lambda: drained(FusedChain(steps)(0, read(batches)))

    counts = nested_combine(nested_pairs(lines))
    encoded = nested_buckets(counts.items())
    chunks = [pickle.loads(c) for c in list(Buckets(PARTITIONS)(0, counts.items()))[1::2]]
    rows: list[tuple[str, Callable[[], Any] | None, Callable[[], Any]]] = [
        ("read the block", lambda: drained(read(batches)), lambda: drained(read(batches))),
        ("+ flatMap", lambda: drained(w for line in read(batches) for w in split(line)), chain(flat_map)),
        ("+ map", lambda: drained(nested_pairs(read(batches))), chain(flat_map, mapped)),
        (
            "+ combine (map side)",
            lambda: nested_combine(nested_pairs(read(batches))),
            chain(flat_map, mapped, CombineValues(combiner)),
        ),
        ("the same with operator.add", None, chain(flat_map, mapped, CombineValues(added))),
        (
            "+ buckets for a shuffle",
            lambda: nested_buckets(nested_combine(nested_pairs(read(batches))).items()),
            chain(flat_map, mapped, CombineValues(combiner), Buckets(PARTITIONS)),
        ),
        (
            "reduce side alone, 4 map tasks",
            lambda: nested_combine(p for c in encoded * 4 for p in pickle.loads(c)),
            lambda: drained(MergeChunks(combiner).results((), iter(chunks * 4))),
        ),
        (
            "flatMap · countByValue",
            lambda: nested_combine((w, 1) for line in read(batches) for w in split(line)),
            chain(flat_map, CountValues(1e9)),
        ),
        (
            "flatMap · count",
            lambda: sum(1 for line in read(batches) for _ in split(line)),
            chain(flat_map, CountRecords()),
        ),
    ]
    best: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for name, *runs in rows:
            for column, run in enumerate(runs):
                if run is not None:
                    began = time.process_time()
                    run()
                    took = time.process_time() - began
                    best[name, column] = min(best.get((name, column), took), took)
    print(f"{number:,} lines, {words:,} words; CPU time of the best of {ROUNDS} rounds\n")
    print("| part | nested: ns/line | ns/word | generated: ns/line | ns/word | ratio |\n|---|---|---|---|---|---|")
    for name, *_ in rows:
        cells = []
        for column in range(2):
            took = best.get((name, column))
            cells += ["", ""] if took is None else [f"{took / number * 1e9:,.0f}", f"{took / words * 1e9:,.0f}"]
        ratio = f"{best[name, 0] / best[name, 1]:.2f}" if (name, 0) in best else ""
        print(f"| {name} | {' | '.join(cells)} | {ratio} |")


if __name__ == "__main__":
    main(int(sys.argv[1].replace("_", "").replace(",", "")) if len(sys.argv) > 1 else 16_384)
