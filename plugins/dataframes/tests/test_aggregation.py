"""Aggregation in Arrow: partial aggregates of any division of the records give the result of plain Python."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from penstock import ConfigurationError, SchemaError
from penstock.spi import BlockRecords
from penstock_dataframes import aggregation
from penstock_dataframes.aggregation import ALL, Aggregate, Aggregation, CombinedAggregates, PartialAggregates

PRICES = pa.schema([("key", pa.string()), ("price", pa.int64())])
EVERYTHING = Aggregation(
    ("key",),
    tuple(
        Aggregate.of(name, column, function)
        for name, column, function in [
            ("records", ALL, "count"),
            ("count", "price", "count"),
            ("sum", "price", "sum"),
            ("min", "price", "min"),
            ("max", "price", "max"),
            ("mean", "price", "avg"),
        ]
    ),
)
Rows = list[tuple[str | None, int | None]]


def result(of: Aggregation, partitions: list[list[pa.RecordBatch]]) -> list[dict[str, Any]]:
    """The rows of the result, aggregated as the tasks of a batch do it."""
    partials = [table for part in partitions for _, table in PartialAggregates(of)(0, BlockRecords(iter(part)))]
    groups = [(None, partials)] if partials else []
    return [row for batch in CombinedAggregates(of)(0, groups).batches for row in batch.to_pylist()]


def batch(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"key": key, "price": price} for key, price in rows], schema=PRICES)


def expected(rows: Rows) -> dict[str | None, dict[str, Any]]:
    groups = defaultdict[str | None, Rows](list)
    for key, price in rows:
        groups[key].append((key, price))
    found: dict[str | None, dict[str, Any]] = {}
    for key, group in groups.items():
        prices = [price for _, price in group if price is not None]
        found[key] = {
            "key": key,
            "records": len(group),
            "count": len(prices),
            "sum": sum(prices) if prices else None,
            "min": min(prices, default=None),
            "max": max(prices, default=None),
            "mean": sum(prices) / len(prices) if prices else None,
        }
    return found


rows = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(-1000, 1000)), max_size=6)


@given(st.lists(st.lists(rows, max_size=3), max_size=3))
def test_any_division_into_batches_and_partitions_has_the_result_of_plain_python(partitions: list[list[Rows]]) -> None:
    found = result(EVERYTHING, [[batch(part) for part in partition] for partition in partitions])
    everything = [row for partition in partitions for part in partition for row in part]
    assert {row["key"]: row for row in found} == expected(everything)


def test_groups_of_many_chunks_are_combined_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation, "_CHUNK_ROWS", 1)
    monkeypatch.setattr(aggregation, "_MAX_WAITING_GROUPS", 2)
    sizes: list[int] = []
    combined = Aggregation.combined

    def note(of: Aggregation, partials: list[pa.Table]) -> pa.Table:
        sizes.append(len(partials))
        return combined(of, partials)

    monkeypatch.setattr(Aggregation, "combined", note)
    (found,) = result(EVERYTHING, [[batch([("a", n)]) for n in range(6)]])
    assert found["sum"] == sum(range(6))
    assert max(sizes) == 3


def test_without_keys_all_records_are_one_group() -> None:
    total = Aggregation((), (Aggregate.of("n", ALL, "count"), Aggregate.of("sum", "price", "sum")))
    assert result(total, [[batch([("a", 1)])], [batch([("b", 2)])]]) == [{"n": 2, "sum": 3}]
    assert result(Aggregation((), total.aggregates[:1]), [[batch([("a", 1), ("b", 2)])]]) == [{"n": 2}]
    assert result(total, [[], [batch([])]]) == []


def test_partial_aggregates_are_shared() -> None:
    assert EVERYTHING.parts == (
        (ALL, "count_all"),
        ("price", "count"),
        ("price", "sum"),
        ("price", "min"),
        ("price", "max"),
    )


def test_dictionaries_of_several_batches_are_compared_by_value() -> None:
    counts = Aggregation(("key",), (Aggregate.of("n", ALL, "count"),))
    batches = [pa.record_batch({"key": pa.array(keys).dictionary_encode()}) for keys in (["a", "b"], ["b", "a"])]
    found = result(counts, [batches, batches[:1]])
    assert {row["key"]: row["n"] for row in found} == {"a": 3, "b": 3}


def test_unknown_or_ambiguous_column_is_refused_by_name() -> None:
    counts = Aggregation(("word",), (Aggregate.of("n", ALL, "count"),))
    with pytest.raises(SchemaError, match=r"there is no column 'word': the columns are \(key string, price int64\)"):
        result(counts, [[batch([("a", 1)])]])
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["word", "word"])
    with pytest.raises(SchemaError, match="2 columns are named 'word'"):
        result(counts, [[twice]])


def test_values_that_arrow_cannot_aggregate_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"cannot aggregate columns \(key list"):
        result(Aggregation(("key",), (Aggregate.of("n", ALL, "count"),)), [[pa.record_batch({"key": [[1]]})]])
    with pytest.raises(SchemaError, match="cannot aggregate columns"):
        result(Aggregation((), (Aggregate.of("sum", "key", "sum"),)), [[batch([("a", 1)])]])


def test_types_that_change_between_partitions_are_refused_naming_both() -> None:
    of = Aggregation(("key",), (Aggregate.of("n", ALL, "count"),))
    with pytest.raises(SchemaError, match=r"partitions or batches have columns \(k0 int64.*after \(k0 string"):
        result(of, [[pa.record_batch({"key": ["a"]})], [pa.record_batch({"key": [1]})]])


@pytest.mark.parametrize(
    ("column", "function", "error", "message"),
    [
        ("price", "median", ConfigurationError, "sum, count, min, max, mean, and none named 'median'"),
        (ALL, "sum", ConfigurationError, r"sum needs the name of a column; only count takes '\*'"),
        (1, "sum", TypeError, "names of a column and of a function"),
        ("price", sum, TypeError, "names of a column and of a function"),
    ],
)
def test_invalid_aggregate_is_refused(column: Any, function: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Aggregate.of("name", column, function)
