"""The saved program holds nodes of the graph; a DStream in a function of the program is saved around its node."""

from __future__ import annotations

import pickle
import sys
import threading
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from pyspark import SparkContext, cloudpickle
from pyspark.sql.types import StructType
from tests.helpers.fake_graph import FakeContext, FakeInput

from penstock.checkpoint import program
from penstock.checkpoint.program import Program, load_program, save_program
from penstock.conf import Settings
from penstock.errors import CheckpointError, ConfigurationError
from penstock.spi import node_of
from penstock_testing import ManualClock


def program_of(context: FakeContext) -> Program:
    return Program(context, cast(Any, context.sparkContext), Settings.parse({}), ManualClock(), context.graph)


def stored_batches(time_ms: int) -> list[list[int]]:
    return [[time_ms]]


def test_a_dstream_in_an_output_function_is_restored_around_the_restored_node() -> None:
    before, after = FakeContext(), FakeContext()
    source = FakeInput(before, stored_batches).map(str)
    source.foreachRDD(lambda rdd: source)
    load_program(save_program(program_of(before)), program_of(after))
    (output,) = after.graph.outputs
    restored = output.function(cast(Any, None), cast(Any, None))
    assert restored is not source
    assert node_of(cast(Any, restored)) is output.parents[0]
    assert cast(Any, restored).context() is after


def test_a_grouped_stream_in_an_output_function_is_restored_around_the_restored_node() -> None:
    before, after = FakeContext(), FakeContext()
    source = FakeInput(before, stored_batches)
    grouped = source.toDF(StructType().add("value", "integer")).groupBy("value")
    source.foreachRDD(lambda rdd: grouped)
    load_program(save_program(program_of(before)), program_of(after))
    (output,) = after.graph.outputs
    restored = cast(Any, output.function(cast(Any, None), cast(Any, None)))
    # Only the parts of a grouped stream show what was restored; its operations need Spark.
    assert restored._columns == ("value",)
    assert node_of(restored._stream).parents == output.parents


def test_a_restored_join_has_as_many_partitions_as_the_new_run_has_free_slots() -> None:
    before, after = FakeContext(), FakeContext()
    before.sparkContext.master, after.sparkContext.master = "local[2]", "local[8]"
    source = FakeInput(before, stored_batches).map(lambda n: (n, n))
    source.join(source).foreachRDD(print)
    assert before.graph.free_slots() == 2
    load_program(save_program(program_of(before)), program_of(after))
    (joined,) = after.graph.outputs[0].parents
    pairs, others = MagicMock(), MagicMock()
    # Called with mocks in place of RDDs: a join of RDDs needs Spark.
    cast(Any, joined)._function(None, pairs, others)
    pairs.mapValues().union().groupByKey.assert_called_once_with(8)


def test_a_function_that_runs_in_a_task_cannot_refer_to_a_stream() -> None:
    stream = FakeInput(FakeContext(), stored_batches)
    for refers_to in (stream, stream.node):
        with pytest.raises(
            pickle.PicklingError, match="streams exist on the driver only: use the arguments of the function"
        ):
            cloudpickle.dumps(lambda record, refers_to=refers_to: refers_to)


def test_a_function_that_refers_to_the_spark_context_gets_that_of_the_new_run() -> None:
    before, after = FakeContext(), FakeContext()
    old = object.__new__(SparkContext)
    FakeInput(before, stored_batches).foreachRDD(lambda rdd: old)
    load_program(save_program(program_of(before)), program_of(after))
    (output,) = after.graph.outputs
    assert cast(Any, output.function)(None, None) is after.sparkContext


class Column:
    """Stands in for Spark's, which only its own text makes loadable."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> Any:
        raise TypeError("it belongs to a JVM")


def test_a_column_in_a_function_is_saved_as_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "is_column", lambda found: isinstance(found, Column))
    monkeypatch.setattr(program, "dump_column", lambda column: column.text)
    monkeypatch.setattr(program, "load_column", Column)
    before, after = FakeContext(), FakeContext()
    column = Column("a + 1")
    FakeInput(before, stored_batches).foreachRDD(lambda rdd: column)
    load_program(save_program(program_of(before)), program_of(after))
    (output,) = after.graph.outputs
    restored = cast(Any, output.function)(None, None)
    assert restored is not column
    assert restored.text == "a + 1"


def test_a_program_that_is_not_loadable_is_refused_with_the_reason() -> None:
    with pytest.raises(CheckpointError, match=r"^the saved program cannot be loaded: UnpicklingError: "):
        load_program(b"no pickle", program_of(FakeContext()))


def test_operator_that_cannot_be_saved_is_named() -> None:
    context, lock = FakeContext(), threading.Lock()
    source = FakeInput(context, stored_batches)
    source.map(str).filter(lambda record: lock.locked()).foreachRDD(print)
    named = (
        r"^filter at .*test_saved_program\.py:\d+: DStreams with their functions are not serializable, and checkpoints "
        r"contain them: .*cannot pickle '_thread\.lock' object"
    )
    with pytest.raises(ConfigurationError, match=named) as error:
        save_program(program_of(context))
    assert "spark.penstock.checkpoint.rebuild=true" in str(error.value)


def test_streams_that_can_be_saved_alone_and_not_together_are_refused_as_a_program() -> None:
    context = FakeContext()
    stream: Any = FakeInput(context, stored_batches)
    for _ in range(400):
        stream = stream.map(str)
    stream.foreachRDD(print)
    with pytest.raises(ConfigurationError, match=r"^the program: DStreams with their functions .*deep recursion"):
        save_program(program_of(context))


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("penstock.graph.frames", ": another version of Penstock wrote it, which can load it"),
        ("penstock.graph.node", ": another version of Penstock wrote it, which can load it"),
        ("penstock_unheard.nodes", ": pip install penstock-unheard"),
        ("penstock_dataframes.frames", ""),
        ("orders.parse", ""),
    ],
)
def test_missing_class_of_a_saved_program_is_named_with_its_distribution(module: str, advice: str) -> None:
    saved = f"c{module}\nGone\n.".encode()
    with pytest.raises(CheckpointError) as error:
        load_program(saved, program_of(FakeContext()))
    needs = f"it needs {module}.Gone, which is not installed{advice}"
    assert str(error.value) == f"the saved program cannot be loaded: {needs}"


def test_a_saved_program_with_state_is_refused_without_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    context = FakeContext()
    FakeInput(context, stored_batches).updateStateByKey(lambda values, state: len(values)).foreachRDD(print)
    saved = save_program(program_of(context))
    for module in [name for name in sys.modules if name.partition(".")[0] == "penstock_state"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(program, "find_spec", lambda _package: None)
    with pytest.raises(CheckpointError, match=r"which is not installed: pip install penstock-state$"):
        load_program(saved, program_of(FakeContext()))
