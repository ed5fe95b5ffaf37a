"""``combineByKey`` inside a partition: in a dictionary, and above the memory limit in PySpark's merger."""

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyspark.shuffle
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.helpers.examples import examples
from tests.helpers.spilling import into_few_files

from penstock.worker import combine
from penstock.worker.combine import Buckets, Combiner, CombineValues, merge_by_key


def combine_values(combiner: Combiner, _index: int, records: Iterable[Any]) -> Iterable[Any]:
    """The map side, without operators before it."""
    return CombineValues(combiner).results((), records)


def combine_combiners(combiner: Combiner, _index: int, records: Iterable[Any]) -> Iterable[Any]:
    """Merge the combiners of equal keys, as windows do."""
    return merge_by_key(combiner.mergeCombiners, combiner.memory_limit_mb, records)


KEY = st.integers(-3, 3) | st.text(max_size=2) | st.none() | st.tuples(st.integers(0, 2), st.booleans())
PAIRS = st.lists(st.tuples(KEY, st.integers()), max_size=60)


def listed(memory_limit_mb: float = 1e9) -> Combiner:
    """Gathers the values of a key, in order."""
    return Combiner(lambda value: [value], lambda values, value: [*values, value], lambda a, b: a + b, memory_limit_mb)


def brute_force(pairs: list[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    expected: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        expected[key].append(value)
    return dict(expected)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker that uses 100 MB, looks at its memory often, and spills into the test's folder."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(pyspark.shuffle, "get_used_memory", lambda: 100)
    monkeypatch.setattr(combine, "_RECORDS_PER_CHECK", 3)
    into_few_files(monkeypatch)


@pytest.fixture
def spills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry each time PySpark's merger writes to the disk."""
    spills: list[int] = []
    spill = pyspark.shuffle.ExternalMerger._spill

    def counted(merger: Any) -> None:
        spills.append(1)
        spill(merger)

    monkeypatch.setattr(pyspark.shuffle.ExternalMerger, "_spill", counted)
    return spills


def settled(number: int) -> settings:
    return settings(
        max_examples=examples(number),
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


def combines(memory_limit_mb: float, partitions: list[list[tuple[Any, Any]]]) -> bool:
    """Each partition gives each key once with its values in order, and all partitions together do."""
    map_side, reduce_side = (
        partial(combine_values, listed(memory_limit_mb)),
        partial(combine_combiners, listed(memory_limit_mb)),
    )
    shuffled: list[tuple[Any, Any]] = []
    for partition in partitions:
        combined = list(map_side(0, iter(partition)))
        assert len(combined) == len(dict(combined))
        assert dict(combined) == brute_force(partition)
        shuffled += combined
    combined = list(reduce_side(0, iter(shuffled)))
    assert len(combined) == len(dict(combined))
    return dict(combined) == brute_force([pair for partition in partitions for pair in partition])


@pytest.mark.parametrize("memory_limit_mb", [1e9, 100], ids=["far from the limit", "at the limit"])
@given(partitions=st.lists(PAIRS, max_size=3))
@settings(
    max_examples=examples(30),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_combine_within_memory_equals_a_dictionary(
    memory_limit_mb: float, partitions: list[list[tuple[Any, Any]]]
) -> None:
    assert combines(memory_limit_mb, partitions)


@pytest.mark.parametrize("memory_limit_mb", [99, 0], ids=["past the limit", "without memory"])
@given(partitions=st.lists(st.lists(st.tuples(KEY, st.integers()), max_size=15), max_size=2))
@settings(
    max_examples=examples(3),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_combine_in_the_external_merger_equals_a_dictionary(
    memory_limit_mb: float, partitions: list[list[tuple[Any, Any]]]
) -> None:
    assert combines(memory_limit_mb, partitions)


def test_combine_above_the_memory_limit_spills_to_disk_and_cleans_up(spills: list[int], tmp_path: Path) -> None:
    pairs = [(n % 1000, n) for n in range(20_000)]
    combiner = Combiner(int, lambda a, b: a + b, lambda a, b: a + b, 50)
    for side in (combine_values, combine_combiners):
        spills.clear()
        combined = dict(side(combiner, 0, iter(pairs)))
        assert combined == {key: sum(range(key, 20_000, 1000)) for key in range(1000)}
        assert len(spills) > 1
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_combine_within_the_memory_limit_spills_nothing(spills: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.shuffle, "ExternalMerger", lambda *_args: pytest.fail("the merger was used"))
    assert len(list(combine_values(listed(100), 0, ((n, n) for n in range(100))))) == 100


def test_reduce_side_merges_combiners_without_creating_new_ones() -> None:
    created: list[int] = []

    def create(value: int) -> tuple[str, int]:
        created.append(value)
        return ("made", value)

    def merge(combiner: tuple[str, int], value: int) -> tuple[str, int]:
        return (combiner[0], combiner[1] + value)

    def merge_combiners(one: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
        return (one[0], one[1] + other[1])

    combiner = Combiner(create, merge, merge_combiners, 1e9)
    half = list(combine_values(combiner, 0, [("a", 1), ("a", 2), ("b", 3)]))
    assert dict(half) == {"a": ("made", 3), "b": ("made", 3)}
    assert created == [1, 3]
    assert dict(combine_combiners(combiner, 0, half * 2)) == {"a": ("made", 6), "b": ("made", 6)}
    assert created == [1, 3]


@pytest.mark.parametrize("memory_limit_mb", [1e9, 0], ids=["in memory", "no memory"])
def test_errors_of_combine_functions_are_raised_unchanged(memory_limit_mb: float) -> None:
    def fail(_one: Any, _other: Any) -> Any:
        raise KeyError("mine")

    pairs = [(n % 10, n) for n in range(100)]
    for function in (
        partial(combine_values, Combiner(int, fail, fail, memory_limit_mb)),
        partial(combine_combiners, Combiner(int, fail, fail, memory_limit_mb)),
    ):
        with pytest.raises(KeyError, match="mine"):
            list(function(0, pairs))


@pytest.mark.parametrize("memory_limit_mb", [1e9, 0], ids=["in memory", "no memory"])
def test_stop_iteration_is_an_error_on_every_combine_path(memory_limit_mb: float) -> None:
    calls = 0

    def stop(one: Any, other: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 50:
            raise StopIteration
        return one + other

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(combine_values(Combiner(int, stop, stop, memory_limit_mb), 0, [(n % 10, n) for n in range(100)]))


def test_combine_reads_records_lazily() -> None:
    taken = 0

    def source() -> Iterator[tuple[int, int]]:
        nonlocal taken
        for n in range(10):
            taken += 1
            yield n, n

    records = iter(combine_values(listed(), 0, source()))
    assert taken == 0
    assert len(list(records)) == 10


@pytest.mark.parametrize(("size", "largest"), [(100_000, 2_000_000), (10, 1 << 20)])
def test_chunks_of_a_shuffle_stay_small_whatever_the_size_of_a_combiner(size: int, largest: int) -> None:
    number = 40 if size > 10 else 50_000
    output = list(Buckets(1)(0, ((key, bytes(size)) for key in range(number))))
    chunks = [pickle.loads(chunk) for chunk in output[1::2]]
    assert [key for keys, _combiners in chunks for key in keys] == list(range(number))
    assert max(map(len, output)) < largest
    # Small pairs share a pickle.
    assert len(chunks) < 20
