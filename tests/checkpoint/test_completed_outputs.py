"""``CompletedOutputs``: a recovered run skips completed outputs, and still updates state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.checkpoint.samples import FakeProgram
from tests.helpers.fake_graph import FakeContext, FakeInput
from tests.helpers.fake_streams import context, tables  # noqa: F401
from tests.helpers.memory_directory import MemoryDirectory

from penstock.checkpoint.completed_outputs import CompletedOutputs, output_names
from penstock.conf import Settings
from penstock.errors import WriteAheadLogError
from penstock.graph.dstream_graph import GraphRuntime
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from pyspark import RDD

NAMES = {0: "pprint-0", 1: "sink"}


def opened(disk: MemoryDirectory, names: dict[int, str] = NAMES) -> CompletedOutputs:
    made = CompletedOutputs(WriteAheadLog(disk, "run", Settings.parse({}), ManualClock(0)), names)
    made.start()
    return made


def test_next_run_recognizes_completed_outputs_by_name() -> None:
    disk = MemoryDirectory()
    first = opened(disk)
    first.note(1000, 0)
    first.note(2000, 1)
    assert [first.has(1000, 0), first.has(1000, 1), first.has(2000, 1)] == [True, False, True]
    second = opened(disk.copy(), {0: "new", 1: "pprint-0", 2: "sink"})
    assert [second.has(1000, 0), second.has(1000, 1), second.has(2000, 2)] == [False, True, True]
    first.close()
    second.close()


def test_closed_log_takes_no_further_output() -> None:
    outputs = opened(MemoryDirectory())
    outputs.close()
    with pytest.raises(WriteAheadLogError, match="closed"):
        outputs.note(1000, 0)


def test_clean_up_forgets_older_batches_in_later_runs_too() -> None:
    disk = MemoryDirectory()
    first = opened(disk)
    for time_ms in (1000, 2000):
        first.note(time_ms, 0)
    first.clean_up(2000)
    assert [first.has(1000, 0), first.has(2000, 0)] == [False, True]
    second = opened(disk.copy())
    assert [second.has(1000, 0), second.has(2000, 0)] == [False, True]
    first.close()
    second.close()


def test_clean_up_writes_nothing_if_no_batch_is_older() -> None:
    disk = MemoryDirectory()
    outputs = opened(disk)
    outputs.note(1000, 0)
    before = disk.copy().files
    outputs.clean_up(1000)
    assert disk.files == before
    assert outputs.has(1000, 0)
    outputs.close()


class Completed:
    """One output of one batch has completed."""

    def __init__(self, time_ms: int, output_op_id: int) -> None:
        self._what = (time_ms, output_op_id)
        self.noted: list[tuple[int, int]] = []

    def note(self, time_ms: int, output_op_id: int) -> None:
        self.noted.append((time_ms, output_op_id))

    def has(self, time_ms: int, output_op_id: int) -> bool:
        return (time_ms, output_op_id) == self._what


@pytest.mark.usefixtures("tables")
def test_state_includes_batches_whose_output_is_skipped(context: FakeContext) -> None:  # noqa: F811
    seen: dict[int, Any] = {}
    other: list[int] = []

    def note(time: Any, rdd: RDD[Any]) -> None:
        seen[round(time.timestamp() * 1000)] = dict(rdd.collect())

    source = FakeInput(context, lambda time_ms: [[("sum", time_ms)]])
    source.updateStateByKey(lambda values, state: sum(values) + (state or 0)).foreachRDD(note)
    source.foreachRDD(lambda rdd: other.append(rdd.getNumPartitions()))
    done = Completed(200, 0)
    context.graph.connect(GraphRuntime(completed_outputs=cast(Any, done)))
    context.graph.start(0)
    for time_ms in (100, 200, 300):
        for job in context.graph.generate_jobs(time_ms):
            job.run()
        context.graph.clear_metadata(time_ms, unpersist=True)
    assert seen == {100: {"sum": 100}, 300: {"sum": 600}}
    assert done.noted == [(100, 0), (100, 1), (200, 1), (300, 0), (300, 1)]


@pytest.mark.usefixtures("tables")
def test_retry_skips_a_completed_output(context: FakeContext) -> None:  # noqa: F811
    context.graph.connect(GraphRuntime(generation_retries=1, completed_outputs=cast(Any, Completed(100, 0))))
    context.graph.stopping.wait = lambda _timeout: False  # type: ignore[assignment, method-assign, misc]
    fails = [True]
    seen: list[Any] = []

    def transform(rdd: RDD[Any]) -> RDD[Any]:
        if fails:
            fails.pop()
            raise ConnectionError("not now")
        return rdd

    make: Callable[..., Any] = FakeInput(context, lambda time_ms: [[time_ms]]).transform
    make(transform).foreachRDD(seen.append)
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    job.run()
    assert seen == []


# -- names of outputs --

Output = tuple[Callable[[Any], object], str | None]


def to_database(_rdd: Any) -> None:
    """An output function."""


def to_queue(_rdd: Any) -> None:
    """Another output function."""


@pytest.fixture
def outputs() -> Iterator[Callable[..., CompletedOutputs]]:
    """Opens the log of the next run, given the functions of its outputs and the names of their streams."""
    disks, made = [MemoryDirectory()], list[CompletedOutputs]()

    def make(*wanted: Output) -> CompletedOutputs:
        if made:
            made[-1].close()
        program = FakeProgram()
        for function, name in wanted:
            stream = program.source.map(str)
            if name is not None:
                stream.setName(name)
            stream.foreachRDD(function)
        disks.append(disks[-1].copy())
        made.append(opened(disks[-1], output_names(program.graph.outputs)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_unnamed_outputs_are_recognized_while_their_number_is_equal(outputs: Callable[..., CompletedOutputs]) -> None:
    first = outputs((print, None), (print, "named"))
    first.note(1000, 0)
    first.note(1000, 1)
    second = outputs((print, None), (print, "named"))
    assert [second.has(1000, number) for number in range(2)] == [True, True]
    # With one more output, only named streams identify theirs.
    third = outputs((print, None), (print, None), (print, "named"))
    assert [third.has(1000, number) for number in range(3)] == [False, False, True]
    fourth = outputs((print, None), (print, "named"))
    assert [fourth.has(1000, number) for number in range(2)] == [True, True]
    # Two outputs are on a stream of that name now.
    fifth = outputs((to_queue, "named"), (print, "named"))
    assert [fifth.has(1000, number) for number in range(2)] == [False, False]


def test_output_is_not_mistaken_for_another_at_its_position(outputs: Callable[..., CompletedOutputs]) -> None:
    first = outputs((to_database, None), (to_queue, None), (print, "a"), (print, "b"))
    first.note(1000, 0)
    first.note(1000, 2)
    second = outputs((to_queue, None), (to_database, None), (print, "b"), (print, "a"))
    # The last one is recognized by its name.
    assert [second.has(1000, number) for number in range(4)] == [False, False, False, True]
