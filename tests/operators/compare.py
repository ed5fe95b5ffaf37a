"""Run every operator of DStream in PySpark and in Penstock, on the same input, and write the table of both results.

usage: compare.py [PAGE]     PAGE: tests/operators/compared.md by default

Nothing in the table is written by hand but the reasons for differences, and a reason without a difference, or a
difference without a reason, is an error. PySpark's half runs in real time, with batches of a quarter of a second;
Penstock's under the manual clock.
"""

from __future__ import annotations

import contextlib
import io
import operator
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from pyspark import StorageLevel

PAGE = Path(__file__).parent / "compared.md"
# Exact in binary: PySpark cuts durations off to whole milliseconds.
_PYSPARK_BATCH_S, _BATCH_S = 0.25, 1.0
_DEADLINE_S = 120.0

Batches = list[list[Any]]

HEAD = """\
# Operators compared with PySpark's

`compare.py` writes this table: it runs each program in `pyspark.streaming` and in Penstock. `stream`
and `other` are streams of the batches in the third column. `s` is the batch interval in seconds, `second_batch` the
time of one. Records of a batch are sorted. [Operators](../../docs/operators.md) explains the operators.

| operator | program | input | PySpark's result | Penstock's result | same |
|---|---|---|---|---|---|
"""


@define
class Surroundings:
    """The surroundings of a program: its folder, and what it produced beside its stream.

    Attributes:
        folder: for its files.
        seen: for what its output functions see.
        printed: what it printed.
    """

    folder: Path
    seen: list[Any] = field(factory=list)
    printed: str = ""


@frozen
class Case:
    """One program.

    Attributes:
        operator: of which it is an example.
        program: an expression.
        inputs: the batches of each stream.
        is_carried_on: whether it needs a checkpoint directory.
        read: its result, where that is not what the stream that it makes holds.
        difference: the reason why the results differ.
    """

    operator: str
    program: str
    inputs: tuple[Batches, ...]
    is_carried_on: bool = False
    read: Callable[[Any, Surroundings], Any] | None = None
    difference: str = ""

    @property
    def num_batches(self) -> int:
        return max(map(len, self.inputs))

    def make(self, sc: Any, streams: list[Any], batch_s: float, around: Surroundings) -> Any:
        """The stream that the program makes, if it makes one."""
        names = dict(zip(("stream", "other"), streams, strict=False), sc=sc, s=batch_s, operator=operator)
        names |= {"StorageLevel": StorageLevel, "seen": around.seen, "folder": str(around.folder)}
        return eval(self.program, names)

    def batches(self, number: int) -> Batches:
        """Of an input, as many as are run."""
        return [*self.inputs[number], *([[]] * (self.num_batches - len(self.inputs[number])))]


def _saved(sc: Any, around: Surroundings) -> Batches:
    return [sorted(sc.textFile(str(path)).collect()) for path in sorted(around.folder.iterdir())]


def _printed(_sc: Any, around: Surroundings) -> str:
    return "\n".join(line for line in around.printed.splitlines() if not line.startswith("Time: "))


def _seen(_sc: Any, around: Surroundings) -> list[Any]:
    return around.seen


def _sliced(_sc: Any, around: Surroundings) -> list[Any]:
    return around.seen


NUMBERS: Batches = [[1, 2, 3], [4], []]
WORDS: Batches = [["a", "b", "a"], [], ["b"]]
PAIRS: Batches = [[("a", 1), ("a", 2), ("b", 3)], [], [("a", 4)]]
OTHERS: Batches = [[("a", "x"), ("c", "y")], [("b", "z")], [("a", "w")]]
ONE_A_BATCH: Batches = [[1], [2], [3], [4], [5], []]
LEAVING: Batches = [[("a", 1), ("b", 1)], [("a", 2)], [], [], [], [], []]

CASES = [
    Case("cache", "stream.map(str).cache()", (NUMBERS,)),
    Case("checkpoint", "stream.map(str).checkpoint(2 * s)", (NUMBERS,), is_carried_on=True),
    Case(
        "cogroup",
        "stream.cogroup(other).mapValues(lambda groups: tuple(sorted(group) for group in groups))",
        (PAIRS, OTHERS),
    ),
    Case(
        "combineByKey",
        "stream.combineByKey(lambda n: [n], lambda c, n: [*c, n], lambda a, b: a + b).mapValues(sorted)",
        (PAIRS,),
    ),
    Case("context", "seen.append(stream.context() is other.context())", (NUMBERS, NUMBERS), read=_seen),
    Case("count", "stream.count()", (NUMBERS,)),
    Case(
        "count",
        "stream.transform(lambda rdd: rdd.context.emptyRDD()).count()",
        (NUMBERS,),
        difference="an RDD without partitions counts 0",
    ),
    Case("countByValue", "stream.countByValue()", (WORDS,)),
    Case("countByValueAndWindow", "stream.countByValueAndWindow(2 * s, s)", ([*WORDS, [], []],), is_carried_on=True),
    Case("countByValueAndWindow", "stream.countByValueAndWindow(5 * s, s)", ([["a"], ["b"], *[[]] * 5],), True),
    Case("countByWindow", "stream.countByWindow(2 * s, s)", (ONE_A_BATCH,), is_carried_on=True),
    Case("countByWindow", "stream.countByWindow(5 * s, s)", ([[1], [2, 3], *[[]] * 5],), is_carried_on=True),
    Case("filter", "stream.filter(lambda n: n % 2)", (NUMBERS,)),
    Case("flatMap", "stream.flatMap(range)", (NUMBERS,)),
    Case("flatMapValues", "stream.flatMapValues(range)", (PAIRS,)),
    Case("foreachRDD", "stream.foreachRDD(lambda rdd: seen.append(sorted(rdd.collect())))", (NUMBERS,), read=_seen),
    Case("fullOuterJoin", "stream.fullOuterJoin(other)", (PAIRS, OTHERS)),
    Case("glom", "stream.glom()", (NUMBERS,)),
    Case("groupByKey", "stream.groupByKey().mapValues(sorted)", (PAIRS,)),
    Case(
        "groupByKeyAndWindow",
        "stream.groupByKeyAndWindow(2 * s, s).mapValues(list)",
        ([[("a", 1)], [("a", 2), ("b", 3)], [], []],),
        is_carried_on=True,
    ),
    Case(
        "groupByKeyAndWindow",
        "stream.groupByKeyAndWindow(5 * s, s).mapValues(list)",
        (LEAVING,),
        is_carried_on=True,
        difference="a key without values leaves the window",
    ),
    Case("join", "stream.join(other)", (PAIRS, OTHERS)),
    Case("leftOuterJoin", "stream.leftOuterJoin(other)", (PAIRS, OTHERS)),
    Case("map", "stream.map(lambda n: n + 1)", (NUMBERS,)),
    Case("mapPartitions", "stream.mapPartitions(lambda records: [sum(records)])", (NUMBERS,)),
    Case("mapPartitionsWithIndex", "stream.mapPartitionsWithIndex(lambda i, records: [(i, sum(records))])", (NUMBERS,)),
    Case("mapValues", "stream.mapValues(lambda n: n + 1)", (PAIRS,)),
    Case("mapValues", "stream.mapValues(lambda n: n + 1)", ([[("a", 1, "more")]],)),
    Case("partitionBy", "stream.partitionBy(2, lambda key: ord(key)).glom()", (PAIRS,)),
    Case("persist", "stream.map(str).persist(StorageLevel.DISK_ONLY)", (NUMBERS,)),
    Case("pprint", "stream.pprint(2)", (NUMBERS,), read=_printed),
    Case("reduce", "stream.reduce(operator.add)", (NUMBERS,)),
    Case("reduceByKey", "stream.reduceByKey(operator.add)", (PAIRS,)),
    Case("reduceByKeyAndWindow", "stream.reduceByKeyAndWindow(operator.add, None, 2 * s, s)", (LEAVING[:5],)),
    Case(
        "reduceByKeyAndWindow",
        "stream.reduceByKeyAndWindow(operator.add, operator.sub, 2 * s, s)",
        (LEAVING[:5],),
        is_carried_on=True,
    ),
    Case(
        "reduceByKeyAndWindow",
        "stream.reduceByKeyAndWindow(operator.add, operator.sub, 5 * s, s)",
        (LEAVING,),
        is_carried_on=True,
    ),
    Case(
        "reduceByKeyAndWindow",
        "stream.reduceByKeyAndWindow(operator.add, operator.sub, 5 * s, s, filterFunc=lambda pair: pair[1] > 0)",
        (LEAVING,),
        is_carried_on=True,
    ),
    Case(
        "reduceByKeyAndWindow",
        "stream.reduceByKeyAndWindow(operator.add, None, 2 * s, s, filterFunc=lambda pair: pair[1] > 2)",
        (LEAVING[:5],),
        difference="the filter is applied also without an inverse",
    ),
    Case("reduceByWindow", "stream.reduceByWindow(operator.add, None, 2 * s, 2 * s)", (ONE_A_BATCH,)),
    Case("reduceByWindow", "stream.reduceByWindow(operator.add, operator.sub, 5 * s, s)", (ONE_A_BATCH,), True),
    Case("repartition", "stream.repartition(3).glom().count()", (NUMBERS,)),
    Case("rightOuterJoin", "stream.rightOuterJoin(other)", (PAIRS, OTHERS)),
    Case("saveAsTextFiles", "stream.saveAsTextFiles(folder + '/out', 'txt')", (NUMBERS,), read=_saved),
    Case("slice", "stream.slice(second_batch, third_batch)", (ONE_A_BATCH[:4],), read=_sliced),
    Case("transform", "stream.transform(lambda rdd: rdd.cartesian(rdd))", ([[1, 2], []],)),
    Case("transform", "stream.transform(lambda rdd: None)", (NUMBERS,)),
    Case("transformWith", "stream.transformWith(lambda a, b: a.subtract(b), other)", (NUMBERS, [[2], [4], [6]])),
    Case("union", "stream.union(other)", (NUMBERS, WORDS)),
    Case(
        "updateStateByKey",
        "stream.updateStateByKey(lambda values, state: sum(values) + (state or 0))",
        (PAIRS,),
        is_carried_on=True,
    ),
    Case(
        "updateStateByKey",
        "stream.updateStateByKey(lambda values, state: values or None)",
        (PAIRS,),
        is_carried_on=True,
    ),
    Case(
        "updateStateByKey",
        "stream.updateStateByKey(lambda new, state: (state or []) + new, initialRDD=sc.parallelize([('b', [0])]))",
        (PAIRS,),
        is_carried_on=True,
    ),
    Case("window", "stream.window(2 * s)", (ONE_A_BATCH,)),
    Case("window", "stream.window(2 * s, 3 * s)", (ONE_A_BATCH,)),
    Case("window", "stream.window(4 * s, 2 * s).count()", (ONE_A_BATCH,)),
]


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "files").mkdir()
        yield Path(made)


def run_pyspark(sc: Any, case: Case) -> Any:
    """PySpark's result."""
    from pyspark.streaming import StreamingContext

    with _folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        around = Surroundings(folder / "files")
        ssc: Any = StreamingContext(sc, _PYSPARK_BATCH_S)  # type: ignore[arg-type]  # it takes fractions
        ssc.remember(60)
        if case.is_carried_on:
            ssc.checkpoint(str(folder / "checkpoints"))
        streams = [ssc.queueStream([sc.parallelize(b) for b in case.batches(n)]) for n in range(len(case.inputs))]
        # Lists alone in the functions: with checkpoints PySpark pickles them.
        collected: list[tuple[float, list[Any]]] = []
        ticks: list[float] = []
        out = io.StringIO()
        if case.read is not _sliced:
            made = case.make(sc, streams, _PYSPARK_BATCH_S, around)
            if case.read is None:
                made.foreachRDD(lambda t, rdd: collected.append((t.timestamp(), sorted(rdd.collect(), key=repr))))
        streams[0].foreachRDD(lambda t, _rdd: ticks.append(t.timestamp()))
        with contextlib.redirect_stdout(out) if case.read is _printed else contextlib.nullcontext():
            ssc.start()
            error = _await(ssc, ticks, case.num_batches)
            if case.read is _sliced:
                ends = (ticks[0] + number * _PYSPARK_BATCH_S for number in (1, 2))
                around.seen = [sorted(rdd.collect()) for rdd in streams[0].slice(*ends)]
            ssc.stop(stopSparkContext=False)
        if error is not None:
            return error
        if case.read is None:
            return [records for at, records in collected if at <= ticks[case.num_batches - 1]]
        around.printed = out.getvalue()
        return _cut(case, case.read(sc, around))


def _await(ssc: Any, ticks: list[float], number: int) -> str | None:
    """Wait until ``number`` batches have run; the error of the first that failed, if any."""
    deadline = time.monotonic() + _DEADLINE_S
    while len(ticks) < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {len(ticks)} batches of {number}")
        try:
            ssc.awaitTerminationOrTimeout(0.05)
        except Exception as error:
            return _reason(error)
    return None


def run_penstock(sc: Any, case: Case) -> Any:
    """Penstock's result."""
    from penstock.errors import BatchFailedError
    from penstock_testing import StreamHarness

    with _folder() as folder:
        around, out, sliced = Surroundings(folder / "files"), io.StringIO(), list[Any]()
        directory = str(folder / "checkpoints") if case.is_carried_on else None
        harness = StreamHarness(sc, _BATCH_S, directory)

        def operation(*streams: Any) -> Any:
            streams[0].context().remember(60)
            if case.read is _sliced:
                sliced.append(streams[0])
                return streams[0]
            made = case.make(sc, list(streams), _BATCH_S, around)
            return streams[0] if case.read is not None else made

        with contextlib.redirect_stdout(out) if case.read is _printed else contextlib.nullcontext():
            try:
                made = harness.run(operation, *case.inputs, num_batches=case.num_batches)
            except BatchFailedError as error:
                return _reason(error)
        if case.read is None:
            return [sorted(records, key=repr) for records in made]
        if case.read is _sliced:
            around.seen = [sorted(rdd.collect()) for rdd in sliced[0].slice(2 * _BATCH_S, 3 * _BATCH_S)]
        around.printed = out.getvalue()
        return _cut(case, case.read(sc, around))


def _cut(case: Case, result: Any) -> Any:
    """PySpark runs in real time and may have run further batches."""
    if case.read is _printed:
        rule = "-" * 43
        return [part.strip().splitlines() for part in str(result).split(f"{rule}\n{rule}\n")[1 : case.num_batches + 1]]
    return result[: case.num_batches]


def _reason(error: BaseException) -> str:
    from penstock.spark.failure import reason

    return f"fails: {reason(error)}"


def row(case: Case, theirs: Any, ours: Any) -> str:
    """A line of the table."""
    inputs = ", other: ".join(f"`{batches}`" for batches in case.inputs)
    same = "yes" if theirs == ours else f"no: {case.difference}"
    return f"| {case.operator} | {cell(case.program)} | {inputs} | {cell(theirs)} | {cell(ours)} | {same} |"


def cell(result: Any) -> str:
    """A result, as it is in the table."""
    return f"`{result}`".replace("|", "\\|")


def main() -> None:
    """Write the page."""
    from pyspark import SparkConf, SparkContext

    from penstock_cli.java import ensure_java

    ensure_java()
    conf = SparkConf().setMaster("local[2]").setAppName("compare").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf.set("spark.python.unix.domain.socket.enabled", "true"))
    sc.setLogLevel("OFF")
    rows, wrong = [], []
    for case in CASES:
        theirs, ours = run_pyspark(sc, case), run_penstock(sc, case)
        rows.append(row(case, theirs, ours))
        print(rows[-1], flush=True)
        if (theirs == ours) == bool(case.difference):
            wrong.append(rows[-1])
    sc.stop()
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    page.write_text(HEAD + "\n".join(rows) + "\n")
    if wrong:
        sys.exit("\n".join(["differences without a reason, or reasons without a difference:", *wrong]))


if __name__ == "__main__":
    main()
