"""``DStreamGraph`` and the jobs that its outputs generate; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import BatchFailedError, ConfigurationError, StreamingStateError
from penstock.spi import ForEachDStream, Node

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext, FakeInput

    from penstock import DStream

MakeInput = Callable[..., "FakeInput"]


def fail(_rdd: Any) -> Any:
    raise ValueError("the program's own")


def test_inputs_and_outputs_are_numbered_in_creation_order(make_input: MakeInput, context: FakeContext) -> None:
    inputs = [make_input() for _ in range(5)]
    for stream in reversed(inputs):
        stream.foreachRDD(print)
    assert [stream.id for stream in inputs] == [0, 1, 2, 3, 4]
    assert [output.output_op_id for output in context.graph.outputs] == [0, 1, 2, 3, 4]


def test_a_graph_without_outputs_is_refused(make_input: MakeInput, context: FakeContext) -> None:
    make_input().map(str)
    with pytest.raises(ConfigurationError, match="No output operations registered, so nothing to execute"):
        context.graph.validate()
    make_input().pprint()
    context.graph.validate()


def test_a_start_fixes_zero_time_and_starts_the_inputs(make_input: MakeInput, context: FakeContext) -> None:
    source, unused = make_input(), make_input()
    source.map(str).foreachRDD(print)
    context.graph.start(1000)
    assert (context.graph.zero_time_ms, source.node.running, unused.node.running) == (1000, True, True)
    assert source.node.is_time_valid(1100)
    with pytest.raises(StreamingStateError, match="started already"):
        context.graph.start(1000)
    context.graph.stop()
    assert (source.node.running, unused.node.running) == (False, False)


def test_a_batch_has_a_job_for_each_output_in_order(make_input: MakeInput, context: FakeContext) -> None:
    seen: list[tuple[str, Any]] = []
    source = make_input()
    source.foreachRDD(lambda rdd: seen.append(("first", rdd.collect())))
    source.map(str).foreachRDD(lambda time, rdd: seen.append((f"second at {time}", rdd.collect())))
    context.graph.start(0)
    jobs = context.graph.generate_jobs(100)
    assert seen == []
    assert [job.output_op_id for job in jobs] == [0, 1]
    assert all(job.call_site.short.startswith("foreachRDD at test_dstream_graph.py:") for job in jobs)
    for job in jobs:
        job.run()
    time = datetime.fromtimestamp(0.1)
    assert seen == [("first", [100, 101, 102]), (f"second at {time}", ["100", "101", "102"])]
    assert source.node.computed == [100]


@pytest.mark.parametrize("step", ["validate", "initialize", "remember", "clear_metadata"])
def test_each_step_of_the_graph_visits_a_stream_once(
    make_input: MakeInput, context: FakeContext, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    stream: DStream[Any] = make_input()
    depth = 10
    for _ in range(depth):
        stream = stream.union(stream.map(str))
    stream.foreachRDD(print)
    calls = list[Any]()
    method = getattr(Node, step)

    def counted(node: Node, *arguments: Any, **options: Any) -> Any:
        calls.append(node)
        return method(node, *arguments, **options)

    monkeypatch.setattr(Node, step, counted)
    context.graph.validate()
    context.graph.start(0)
    context.graph.clear_metadata(100, unpersist=True)
    assert 1 <= len(calls) <= 2 * depth + 2


def test_streams_without_an_output_are_not_computed(make_input: MakeInput, context: FakeContext) -> None:
    source, unused = make_input(), make_input()
    unused.map(str)
    source.foreachRDD(print)
    context.graph.start(0)
    context.graph.generate_jobs(100)
    context.graph.clear_metadata(100, unpersist=True)
    assert (source.node.computed, unused.node.computed) == ([100], [])


def test_an_output_without_an_rdd_has_no_job(make_input: MakeInput, context: FakeContext) -> None:
    make_input(lambda _time_ms: None).foreachRDD(print)
    make_input().foreachRDD(print)
    context.graph.start(0)
    assert [job.output_op_id for job in context.graph.generate_jobs(100)] == [1]
    assert context.graph.generate_jobs(150) == []


def test_transform_that_raises_fails_its_own_job_only(make_input: MakeInput, context: FakeContext) -> None:
    seen: list[Any] = []
    source = make_input()
    source.transform(fail).foreachRDD(print)
    source.foreachRDD(lambda rdd: seen.append(rdd.collect()))
    context.graph.start(0)
    failing, fine = context.graph.generate_jobs(100)
    with pytest.raises(BatchFailedError, match="3 attempts: ValueError: the program's own"):
        failing.run()
    fine.run()
    assert seen == [[100, 101, 102]]


def test_job_raises_the_error_of_its_function(make_input: MakeInput, context: FakeContext) -> None:
    make_input().foreachRDD(fail)
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    with pytest.raises(ValueError, match="the program's own"):
        job.run()


def test_errors_that_tasks_of_a_stream_reported_fail_the_jobs_of_its_outputs(
    make_input: MakeInput, context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError("reported")

    first, second = make_input(), make_input()
    first.map(str).foreachRDD(lambda _rdd: None)
    second.map(str).foreachRDD(lambda _rdd: None)
    monkeypatch.setattr(first.node, "check_job", fail)
    context.graph.start(0)
    failed, completed = context.graph.generate_jobs(100)
    completed.run()
    with pytest.raises(ValueError, match="reported"):
        failed.run()


def test_pprint_prints_like_pyspark(
    make_input: MakeInput, context: FakeContext, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_input()
    for num in (2, 3):
        source.pprint(num)
    context.graph.start(0)
    for job in context.graph.generate_jobs(100):
        rdd: Any = source.node.made[100]
        monkeypatch.setattr(rdd, "take", lambda count: [100, "two", None][:count], raising=False)
        job.run()
    head = f"{'-' * 43}\nTime: {datetime.fromtimestamp(0.1)}\n{'-' * 43}\n"
    assert capsys.readouterr().out == f"{head}100\ntwo\n...\n\n{head}100\ntwo\nNone\n\n"


def test_remember_of_the_context_applies_to_all_streams(make_input: MakeInput, context: FakeContext) -> None:
    source = make_input()
    source.map(str).foreachRDD(print)
    context.graph.remember(500)
    context.graph.start(0)
    assert source.node.remember_ms == 500
    assert context.graph.max_input_remember_ms == 500


def test_unused_inputs_do_not_extend_the_remember_duration(make_input: MakeInput, context: FakeContext) -> None:
    make_input()
    make_input().foreachRDD(print)
    context.graph.start(0)
    assert context.graph.max_input_remember_ms == 100


def test_graph_without_inputs_remembers_one_batch_interval(context: FakeContext) -> None:
    assert context.graph.max_input_remember_ms == 100


# -- nodes of plugins --


def test_streams_that_an_output_reaches_are_prepared(make_input: MakeInput, context: FakeContext) -> None:
    source = make_input()
    streams = [PreparedNode(context.graph, (source.node,)) for _ in range(2)]
    ForEachDStream(streams[0], print)
    context.graph.prepare()
    assert [stream.prepared for stream in streams] == [1, 0]


def test_every_node_has_a_role(make_input: MakeInput, context: FakeContext) -> None:
    make_input().map(str).foreachRDD(print)
    assert [stream.role for stream in context.graph.streams()] == ["input", "transformation", "output"]


class PreparedNode(Node):
    prepared = 0

    def prepare(self) -> None:
        self.prepared += 1
