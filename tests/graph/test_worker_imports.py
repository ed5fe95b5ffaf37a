"""Python workers import nothing of the driver side to run operators: it would cost each worker 0.3 s."""

from __future__ import annotations

import itertools
import operator
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import Accumulator, cloudpickle

from penstock import Block, State, StateSpec
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_transfer import open_block
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.graph.dstream import DStream
from penstock.spi import node_of
from penstock.wire.endpoint import Endpoint
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext, FakeInput, FakeRDD

BATCHES = 12

DRIVERS_SIDE = ["structlog", "pluggy", "rich", "penstock.context", "penstock.graph"]

# As a worker: its own module first, then functions as they come.
WORKER = """
import pickle, sys
import pyspark.worker
from pathlib import Path
unwanted = set(sys.argv[2].split(","))
for operator, sent in pickle.loads(Path(sys.argv[1]).read_bytes()):
    pickle.loads(sent)
    if imported := unwanted & sys.modules.keys():
        print(operator, "imports", *sorted(imported))
        unwanted -= imported
"""

READER = """
import pickle, sys
import pyspark.worker
from pathlib import Path
read, references = pickle.loads(Path(sys.argv[1]).read_bytes())
for reference in references:
    print(list(read(0, [(reference,)])))
    print(*sys.modules, file=sys.stderr)
"""


def map_with_state(stream: DStream[Any]) -> DStream[Any]:
    def function(key: str, value: int | None, state: State[int]) -> int | None:
        if not state.isTimingOut():
            state.update(1)
        return value

    spec = StateSpec.function(function).timeout(0.2).initialState([("c", 1)])
    mapped = stream.mapWithState(spec)
    return mapped.union(mapped.stateSnapshots())


OPERATORS: dict[str, Callable[[DStream[Any]], DStream[Any]]] = {
    "map": lambda stream: stream.map(str),
    "flatMap": lambda stream: stream.flatMap(list),
    "filter": lambda stream: stream.filter(bool),
    "mapPartitions": lambda stream: stream.mapPartitions(list),
    "mapPartitionsWithIndex": lambda stream: stream.mapPartitionsWithIndex(lambda _index, records: records),
    "mapValues": lambda stream: stream.mapValues(str),
    "flatMapValues": lambda stream: stream.flatMapValues(range),
    "glom": lambda stream: stream.glom(),
    "reduceByKey": lambda stream: stream.reduceByKey(operator.add),
    "combineByKey": lambda stream: stream.combineByKey(str, operator.add, operator.add),
    "groupByKey": lambda stream: stream.groupByKey(),
    "reduce": lambda stream: stream.reduce(operator.add),
    "count": lambda stream: stream.count(),
    "countByValue": lambda stream: stream.countByValue(),
    "partitionBy": lambda stream: stream.partitionBy(2),
    "union": lambda stream: stream.union(stream),
    "window": lambda stream: stream.window(0.2),
    "reduceByWindow": lambda stream: stream.reduceByWindow(max, None, 0.3, 0.1),
    "countByWindow": lambda stream: stream.countByWindow(0.5, 0.1),
    "countByValueAndWindow": lambda stream: stream.countByValueAndWindow(0.5, 0.1),
    "groupByKeyAndWindow": lambda stream: stream.groupByKeyAndWindow(0.3, 0.1),
    "reduceByKeyAndWindow": lambda stream: stream.reduceByKeyAndWindow(max, min, 0.5, 0.1, None, bool),
    "updateStateByKey": lambda stream: stream.updateStateByKey(
        lambda values, state: values or state, initialRDD=[("c", 1)]
    ),
    "mapWithState": map_with_state,
}
# These send nothing of ours, what partitionBy sends, or the above.
OTHERS = {
    *("cogroup", "join", "leftOuterJoin", "rightOuterJoin", "fullOuterJoin", "repartition", "transform"),
    *("transformWith", "foreachRDD", "pprint", "saveAsTextFiles", "saveAsPickleFiles", "cache", "checkpoint"),
    *("persist", "slice", "context", "setName", "id", "toDF", "foreachDataFrame"),
    # Those of a plugin: plugins/dataframes/tests.
    *("mapInArrow", "mapInPandas", "groupBy", "foreachTable"),
}


def sent_by(stream: DStream[Any], sent: list[Any]) -> Iterable[Any]:
    """The functions that tasks get in some batches of a stream."""
    sent.clear()
    node_of(stream).initialize(0)
    node_of(stream).remember(0)
    for number in range(1, BATCHES + 1):
        node_of(stream).get_or_compute(number * 100)
    return list(sent)


def noting(method: Callable[..., FakeRDD], sent: list[Any]) -> Callable[..., FakeRDD]:
    def noting(rdd: FakeRDD, *arguments: Any) -> FakeRDD:
        sent.extend(argument for argument in arguments if callable(argument))
        return method(rdd, *arguments)

    return noting


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, context: FakeContext, tables: None) -> list[Any]:
    """Notes what RDDs are given to do."""
    sent: list[Any] = []
    kind: Any = type(context.sparkContext.emptyRDD())
    for name in ("mapPartitionsWithIndex", "partitionBy"):
        monkeypatch.setattr(kind, name, noting(getattr(kind, name), sent))

    numbers = itertools.count()
    monkeypatch.setattr(
        context.sparkContext, "accumulator", lambda value, param: Accumulator(next(numbers), value, param)
    )
    return sent


def test_tasks_of_operators_import_nothing_of_the_driver_side(
    make_input: Callable[..., FakeInput], sent: list[Any], tmp_path: Path
) -> None:
    pairs = make_input(lambda time_ms: [[("a", 1)], [("b", 2)]] if time_ms < 800 else [[], []])
    pickled = [
        (name, cloudpickle.dumps(function))
        for name, operation in OPERATORS.items()
        for function in sent_by(operation(pairs), sent)
    ]
    assert OPERATORS.keys() - {"union", "window"} == {name for name, _pickle in pickled}
    assert imports_of_a_worker(pickled, tmp_path) == ""


def imports_of_a_worker(pickled: list[tuple[str, bytes]], folder: Path) -> str:
    """The modules of the driver side that a worker imports to load functions, by operator."""
    (folder / "sent").write_bytes(pickle.dumps(pickled))
    command = [sys.executable, "-c", WORKER, str(folder / "sent"), ",".join(DRIVERS_SIDE)]
    worker = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert worker.returncode == 0, worker.stderr
    return worker.stdout


def test_every_operator_is_checked_for_its_imports() -> None:
    public = {name for name in dir(DStream) if not name.startswith("_")}
    assert OPERATORS.keys() | OTHERS == public


def test_reading_a_block_imports_neither_logging_nor_plugins_and_its_client_only_to_fetch(tmp_path: Path) -> None:
    handler, token = LocalBlockHandler(tmp_path / "blocks"), Token.generate()
    stored = handler.store(Block("input-0-1-0", 0, 2, arrow_form.encode(["a", "b"])))
    endpoint = Endpoint("127.0.0.1", token, {}, partial(open_block, handler.open))
    location = token.location("127.0.0.1", endpoint.port)
    references = [
        BlockReference(stored.block_id, path, 2, location) for path in (stored.path, "/not/on/this/host.arrow")
    ]
    (tmp_path / "sent").write_bytes(pickle.dumps((ReadBlocks(token), references)))
    command = [sys.executable, "-c", READER, str(tmp_path / "sent")]
    worker = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    endpoint.stop()
    assert (worker.returncode, worker.stdout) == (0, "['a', 'b']\n" * 2), worker.stderr
    from_its_file, fetched = (set(modules.split()) for modules in worker.stderr.splitlines())
    assert "penstock.worker.block_reader" in from_its_file
    assert not fetched & {*DRIVERS_SIDE, "penstock.conf"}
    assert "pyarrow.flight" not in from_its_file
    assert "pyarrow.flight" in fetched
