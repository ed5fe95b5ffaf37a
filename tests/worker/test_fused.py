"""Operators as generated code: the same results as nested generators, and errors that show the program's function."""

from __future__ import annotations

import linecache
import operator
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock.worker import combine, fused
from penstock.worker.combine import Combiner, CombineValues, CountRecords, CountValues
from penstock.worker.functions import map_partitions_with_index, same
from penstock.worker.fused import CHECK_PAIRS, AnyStep, FusedChain, Step, TerminalStep

SUM = Combiner(same, operator.add, operator.add, 1e9)


def stop(*_args: Any) -> Any:
    raise StopIteration


def noting(notes: list[int], value: Callable[[], int], result: int) -> Callable[[], int]:
    """A function that notes a value at each call."""

    def note() -> int:
        notes.append(value())
        return result

    return note


def run(chain: FusedChain | AnyStep, records: Iterable[Any], index: int = 0) -> list[Any]:
    """The results of a chain, or of a step alone."""
    return list((chain if isinstance(chain, FusedChain) else FusedChain((chain,)))(index, records))


# -- the reference: one generator for each operator --


def nested_step(step: AnyStep, index: int, records: Iterable[Any]) -> Iterator[Any]:
    if isinstance(step, TerminalStep):
        yield from nested_last(step, records)
        return
    if not isinstance(step, Step):
        yield from step(index, records)
        return
    f: Any = step.function
    for record in records:
        match step.kind:
            case "map":
                yield f(record)
            case "flatMap":
                yield from f(record)
            case "filter":
                if f(record):
                    yield record
            case "mapValues":
                yield record[0], f(record[1])
            case "flatMapValues":
                for item in f(record[1]):
                    yield record[0], item
            case "checkPairs":
                yield record


def nested_last(step: TerminalStep, records: Iterable[Any]) -> Iterator[Any]:
    match step:
        case CountRecords():
            yield sum(1 for _ in records)
        case CountValues():
            counts: dict[Any, int] = {}
            for record in records:
                counts[record] = counts.get(record, 0) + 1
            yield from counts.items()
        case CombineValues(combiner):
            combined: dict[Any, Any] = {}
            for key, value in records:
                if key in combined:
                    combined[key] = combiner.mergeValue(combined[key], value)
                else:
                    combined[key] = combiner.createCombiner(value)
            yield from combined.items()


def nested(steps: Iterable[AnyStep], index: int, records: Iterable[Any]) -> Iterable[Any]:
    for step in steps:
        records = nested_step(step, index, records)
    return records


glom = partial(map_partitions_with_index, lambda _index, records: [list(records)])

# All of them take and give pairs of a small number and a number or a text, so that every order of them works.
STEPS: dict[str, AnyStep] = {
    "map": Step("map", lambda pair: (pair[1], pair[0])),
    "builtin map": Step("map", tuple),
    "flatMap to a list": Step("flatMap", lambda pair: [pair, (pair[1], pair[1])]),
    "flatMap to an iterator": Step("flatMap", lambda pair: ((pair[0], n) for n in range(pair[1] % 4))),
    "flatMap to nothing": Step("flatMap", lambda pair: [pair] if pair[0] % 2 else ()),
    "filter": Step("filter", lambda pair: pair[0] != pair[1]),
    "mapValues": Step("mapValues", lambda value: (value + 1) % 5),
    "flatMapValues": Step("flatMapValues", range),
    "checkPairs": CHECK_PAIRS,
    "mapPartitions": partial(map_partitions_with_index, lambda _index, pairs: list(pairs)[1:]),
    "mapPartitionsWithIndex": partial(
        map_partitions_with_index, lambda index, pairs: ((index, value) for _key, value in pairs)
    ),
    "reduceByKey": CombineValues(Combiner(same, lambda a, b: (a - b) % 5, max, 1e9)),
    "sum by key": CombineValues(SUM),
    "combineByKey": CombineValues(Combiner(lambda n: (n + 1) % 7, lambda a, b: (a * 2 + b) % 7, max, 1e9)),
    "countByValue": CountValues(1e9),
}
LAST: dict[str, AnyStep] = {"none": Step("map", str), "count": CountRecords(), "glom": glom, "values": CountValues(1e9)}


@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), max_size=6),
    last=st.sampled_from(sorted(LAST)),
    records=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12),
    index=st.integers(0, 3),
)
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_generated_code_equals_nested_generators(
    names: list[str], last: str, records: list[tuple[int, int]], index: int
) -> None:
    # countByValue makes pairs of pairs: its key is made a number again.
    steps: list[AnyStep] = []
    for name in names:
        steps.append(STEPS[name])
        if name == "countByValue":
            steps.append(Step("map", lambda counted: (counted[0][0], counted[1])))
    steps.append(LAST[last])
    assert run(FusedChain(tuple(steps)), iter(records), index) == list(nested(steps, index, records))


@pytest.mark.parametrize("last", [*LAST.values(), CombineValues(SUM)], ids=[*LAST, "combine"])
@pytest.mark.parametrize(
    ("step", "number"),
    [
        (STEPS["map"], 200),
        (STEPS["filter"], 200),
        (STEPS["flatMap to nothing"], 40),
        (Step("flatMapValues", lambda value: iter([value])), 40),
    ],
    ids=["map", "filter", "flatMap", "flatMapValues"],
)
def test_long_chains_equal_nested_generators(step: AnyStep, number: int, last: AnyStep) -> None:
    steps, records = [*[step] * number, last], [(1, 2), (2, 2), (3, 4), (1, 2)]
    assert run(FusedChain(tuple(steps)), records) == list(nested(steps, 0, records))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=60),
    st.integers(1, 9),
    st.sampled_from([list, iter]),
)
@settings(max_examples=examples(30), derandomize=True, deadline=None)
def test_checks_of_the_memory_change_no_result(
    pairs: list[tuple[int, int]], records_per_check: int, as_items: Callable[[Any], Any]
) -> None:
    spread = Step("flatMap", lambda pair: as_items([pair] * 3))
    steps = (spread, CombineValues(Combiner(lambda n: [n], lambda a, n: [*a, n], operator.add, 1e9)))
    checks: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combine, "_RECORDS_PER_CHECK", records_per_check)
        patch.setattr(combine, "_EXPANDING_PER_CHECK", records_per_check)
        patch.setattr("pyspark.shuffle.get_used_memory", noting(checks, lambda: 1, 100))
        assert run(FusedChain(steps), pairs) == list(nested(steps, 0, pairs))
    assert len(checks) >= len(pairs) // records_per_check


@pytest.mark.parametrize(("kind", "num_keys"), [("flatMap", 100), ("flatMapValues", 1)])
def test_memory_is_checked_while_an_iterator_of_one_record_is_read(
    monkeypatch: pytest.MonkeyPatch, kind: fused.Kind, num_keys: int
) -> None:
    checked_at: list[int] = []
    made = 0

    def items(_record: Any) -> Iterator[tuple[int, int]]:
        nonlocal made
        for number in range(100):
            made += 1
            yield number, 1

    monkeypatch.setattr(combine, "_RECORDS_PER_CHECK", 10)
    monkeypatch.setattr("pyspark.shuffle.get_used_memory", noting(checked_at, lambda: made, 100))
    assert len(run(FusedChain((Step(kind, items), CombineValues(SUM))), [("a", 0)])) == num_keys
    assert made == 100
    assert len(checked_at) >= 10
    assert checked_at[0] <= 11


def test_chain_runs_in_order_and_lazily() -> None:
    seen: list[int] = []

    def note(value: int) -> int:
        seen.append(value)
        return value

    steps = (Step("map", note), Step("flatMap", lambda n: [n, n]), Step("filter", lambda n: n > 1))
    records = iter(FusedChain(steps)(0, [1, 2, 3]))
    assert seen == []
    assert next(records) == 2
    assert seen == [1, 2]
    assert list(records) == [2, 3, 3]


@pytest.mark.parametrize("last", [CombineValues(SUM), CountValues(1e9), CountRecords()], ids=["combine", "values", "n"])
def test_last_steps_read_nothing_until_they_are_read(last: TerminalStep) -> None:
    taken: list[int] = []

    def noting_pair(n: int) -> tuple[int, int]:
        taken.append(n)
        return n, n

    results = FusedChain((Step("map", noting_pair), last))(0, range(3))
    assert taken == []
    assert len(list(results)) in (1, 3)
    assert taken == [0, 1, 2]


@pytest.mark.parametrize(
    "steps",
    [
        (Step("map", stop),),
        (Step("flatMap", stop),),
        (Step("filter", stop),),
        (Step("mapValues", stop),),
        (Step("flatMapValues", stop),),
        (Step("map", stop), CombineValues(SUM)),
        (Step("flatMap", stop), CombineValues(SUM)),
        (CombineValues(Combiner(stop, operator.add, operator.add, 1e9)),),
        (CombineValues(Combiner(int, stop, operator.add, 1e9)),),
        (CombineValues(Combiner(same, stop, operator.add, 1e9)),),
        (Step("map", stop), glom),
        (Step("map", stop), CountRecords()),
        (Step("flatMap", stop), CountRecords()),
        (Step("flatMap", stop), CountValues(1e9)),
        (Step("filter", stop), glom),
    ],
    ids=range(15),
)
def test_stop_iteration_of_a_function_is_an_error_and_not_the_end_of_the_partition(steps: tuple[AnyStep, ...]) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(FusedChain(steps), [(1, 1), (1, 1), (1, 1)])


@pytest.mark.parametrize("kind", ["map", "flatMap", "filter", "mapValues", "flatMapValues"])
@pytest.mark.parametrize("last", [(), (CombineValues(SUM),)], ids=["alone", "combine"])
@pytest.mark.parametrize("error", [KeyError("mine"), TypeError("mine"), ValueError("mine")], ids=repr)
def test_error_of_a_function_is_raised_unchanged(kind: fused.Kind, last: tuple[AnyStep, ...], error: Exception) -> None:
    def fail(_value: Any) -> Any:
        raise error

    with pytest.raises(type(error), match="mine") as raised:
        run(FusedChain((Step(kind, fail), *last)), [("a", 1)])
    assert raised.value is error


def test_traceback_shows_the_line_of_the_chain_and_then_the_function() -> None:
    def tokenize(_line: str) -> Any:
        raise ValueError("not mine")

    with pytest.raises(ValueError, match="not mine") as raised:
        run(FusedChain((Step("filter", bool), Step("flatMap", tokenize), CombineValues(SUM))), ["a"])
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [(frame.name, frame.line) for frame in frames[-2:]] == [
        ("chain", "items_2 = flatMap_2(record)"),
        ("tokenize", 'raise ValueError("not mine")'),
    ]
    assert frames[-2].filename == "<penstock filter · flatMap · sumByKey>"
    linecache.checkcache()
    assert "flatMap_2(record)" in "".join(linecache.getlines(frames[-2].filename))


def test_each_sequence_of_operators_is_compiled_once() -> None:
    chain = FusedChain((Step("map", str), Step("map", int)))
    run(chain, [1])
    before = fused.compiled.cache_info()
    run(pickle.loads(pickle.dumps(chain)), [1])
    run(FusedChain((Step("map", abs), Step("map", float))), [1])
    after = fused.compiled.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 2)


def test_functions_are_called_and_never_copied() -> None:
    class Doubling:
        calls = 0

        def __call__(self, value: int) -> int:
            self.calls += 1
            return 2 * value

    doubling = Doubling()
    assert run(FusedChain((Step("map", doubling), Step("map", doubling))), [1, 2]) == [4, 8]
    assert doubling.calls == 4


def test_count_asks_blocks_for_their_number_of_records() -> None:
    class Blocks:
        def count_records(self) -> int:
            return 7

        def __iter__(self) -> Iterator[int]:
            return iter([1, 2])

    assert run(CountRecords(), Blocks()) == [7]
    assert run(FusedChain((Step("filter", bool), CountRecords())), Blocks()) == [2]


@pytest.mark.parametrize(
    "step",
    [Step("map", str), Step("flatMap", str.split), CHECK_PAIRS, CountRecords(), CountValues(1e9), CombineValues(SUM)],
    ids=["map", "flatMap", "checkPairs", "count", "countByValue", "combineByKey"],
)
def test_steps_are_picklable(step: AnyStep) -> None:
    assert pickle.loads(pickle.dumps(step)) == step
