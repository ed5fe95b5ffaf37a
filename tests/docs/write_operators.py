"""Writes the tables of docs/operators.md: ``python -m tests.docs.write_operators``.

What an operator does is the first sentence of its docstring. Example, input and result are of the first program of
tests/operators/compared.md; those of operators that PySpark lacks are in ``OWN``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers.markdown import summary, table

from penstock import DStream, StateSpec
from penstock.graph.dstream import MapWithStateDStream

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operators.md"
COMPARED = ROOT / "tests" / "operators" / "compared.md"
START = "## Inputs of the examples\n"

GROUPS: dict[str, tuple[str, ...]] = {
    "Records": ("map", "flatMap", "filter", "mapPartitions", "mapPartitionsWithIndex", "glom"),
    "Batches": ("count", "countByValue", "reduce", "union", "transform", "transformWith", "repartition"),
    "Pairs": ("mapValues", "flatMapValues", "reduceByKey", "combineByKey", "groupByKey", "partitionBy"),
    "Joins": ("join", "leftOuterJoin", "rightOuterJoin", "fullOuterJoin", "cogroup"),
    "Windows": (
        "window",
        "reduceByWindow",
        "countByWindow",
        "countByValueAndWindow",
        "reduceByKeyAndWindow",
        "groupByKeyAndWindow",
    ),
    "State": ("updateStateByKey", "mapWithState", "stateSnapshots"),
    "Columns": ("mapInArrow", "mapInPandas", "groupBy"),
    "Outputs": ("foreachRDD", "pprint", "saveAsTextFiles", "saveAsPickleFiles", "foreachTable", "foreachDataFrame"),
    "Persistence, names and DataFrames": (
        "cache",
        "persist",
        "checkpoint",
        "slice",
        "context",
        "id",
        "setName",
        "toDF",
    ),
}
NOTES = {
    "Windows": "Durations are in seconds: multiples of the batch interval `s`. "
    "[What windows cost](#what-windows-cost) compares them.\n",
    "State": "All three need a checkpoint directory. `total` is the function [above](#operators).\n",
    "Columns": "These need the plugin `penstock-dataframes`. The columns of tuples are `_1`, `_2` and so on. "
    "[Arrow](dataframes.md#arrow) explains them.\n",
    "Outputs": "An output operation makes a batch run: a stream without one is not computed.\n",
    "Persistence, names and DataFrames": "[DataFrames](dataframes.md) has the operators of `DataFrameStream`.\n",
}
PAIRS: list[list[Any]] = [[("a", 1), ("a", 2), ("b", 3)], [], [("a", 4)]]
#: Inputs that several examples have.
INPUTS: dict[str, list[list[Any]]] = {
    "numbers": [[1, 2, 3], [4], []],
    "steps": [[1], [2], [3], [4], [5], []],
    "letters": [["a", "b", "a"], [], ["b"]],
    "pairs": PAIRS,
    "tags": [[("a", "x"), ("c", "y")], [("b", "z")], [("a", "w")]],
}
#: Operators that PySpark lacks: a program with the stream of PAIRS, and the batches of its stream.
OWN: dict[str, tuple[str, list[list[Any]]]] = {
    "mapWithState": (
        "stream.mapWithState(StateSpec.function(total))",
        [[("a", 1), ("a", 3), ("b", 3)], [], [("a", 7)]],
    ),
    "stateSnapshots": (
        "stream.mapWithState(StateSpec.function(total)).stateSnapshots()",
        [[("a", 3), ("b", 3)], [("a", 3), ("b", 3)], [("a", 7), ("b", 3)]],
    ),
    "mapInArrow": (
        "stream.mapInArrow(lambda batches: (batch.select(['_2']) for batch in batches))",
        [[1, 2, 3], [], [4]],
    ),
    "mapInPandas": (
        "stream.mapInPandas(lambda frames: (frame[frame['_2'] > 1] for frame in frames)).map(tuple)",
        [[("a", 2), ("b", 3)], [], [("a", 4)]],
    ),
    "groupBy": (
        "stream.groupBy('_1').agg(total=('_2', 'sum')).map(tuple)",
        [[("a", 3), ("b", 3)], [], [("a", 4)]],
    ),
    "setName": ("stream.map(str).setName('texts').count()", [[3], [0], [1]]),
    "toDF": (
        "stream.toDF('key string, n int').where('n > 1').rows().map(tuple)",
        [[("a", 2), ("b", 3)], [], [("a", 4)]],
    ),
}
# Output operations, and what has no result of its own.
_WITHOUT_RESULT = {
    "saveAsPickleFiles": "stream.saveAsPickleFiles(folder + '/out')",
    "foreachTable": "stream.foreachTable(lambda table: table.to_pandas())",
    "foreachDataFrame": "stream.toDF('key string, n int').foreachDataFrame(lambda df: df.show())",
    "id": "ssc.receiverStream(receiver).id()",
}
# Program of ``OWN`` → the output operation that runs beside it.
_BESIDE = {"setName": "saveAsPickleFiles", "groupBy": "foreachTable", "toDF": "foreachDataFrame"}


def operators() -> set[str]:
    """The public operators of the code."""
    return {name for kind in (DStream, MapWithStateDStream) for name in dir(kind) if not name.startswith("_")}


def make(program: str, folder: str, stream: Any) -> Any:
    """The stream that a program of ``OWN`` makes."""
    names: dict[str, Any] = {"stream": stream, "StateSpec": StateSpec, "folder": folder}
    (block,) = re.findall(r"^```python\n(def total.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    exec(block, names)
    for name, output in _BESIDE.items():
        if program == OWN[name][0]:
            eval(_WITHOUT_RESULT[output], names)
    return eval(program, names)


def page() -> str:
    """The whole page, with its written part."""
    prose, _, _ = PAGE.read_text(encoding="utf-8").partition(START)
    return prose + "\n".join(_tables())


def _tables() -> Iterator[str]:
    yield START
    yield table(("name", "batches"), [(name, f"`{batches}`") for name, batches in INPUTS.items()])
    compared: dict[str, tuple[str, str, str]] = {}
    for line in COMPARED.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            operator, program, given, _theirs, ours, _same = re.split(r" (?<!\\)\| ", line[2:-2])
            compared.setdefault(operator, (program, _named(given), ours))
    for title, names in GROUPS.items():
        yield f"## {title}\n"
        if title in NOTES:
            yield NOTES[title]
        rows = []
        for name in names:
            if name in OWN:
                program, result = OWN[name]
                example = (f"`{program}`", _named(f"`{PAIRS}`"), f"`{result}`")
            else:
                example = compared.get(name) or (f"`{_WITHOUT_RESULT[name]}`", "", "")
            rows.append((f"`{name}`", summary(getattr(MapWithStateDStream, name)), *example))
        yield table(("operator", "what it does", "example", "input", "result"), rows)


def _named(inputs: str) -> str:
    """Inputs of a program, with the names of those that several examples have."""
    for name, batches in INPUTS.items():
        inputs = inputs.replace(f"`{batches}`", name)
    return inputs


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
