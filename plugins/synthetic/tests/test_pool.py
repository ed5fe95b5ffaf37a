"""The records: the same for the same seed, and of the shape they are said to have."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from penstock_synthetic.pool import POOL_RECORDS, SHAPES, Pool, Shape


@pytest.mark.parametrize("shape", SHAPES)
def test_a_seed_decides(shape: Shape) -> None:
    assert Pool(shape, 7).records == Pool(shape, 7).records
    assert Pool(shape, 7).records != Pool(shape, 8).records


@pytest.mark.parametrize(
    ("shape", "digest"),
    [("lines", "8920f431a9dd2adc"), ("numbers", "9f239524951eeebf"), ("pairs", "876c84182eb89184")],
)
def test_the_records_of_a_seed_stay_what_they_are(shape: Shape, digest: str) -> None:
    assert hashlib.sha256(repr(Pool(shape, 7).records).encode()).hexdigest()[:16] == digest


def test_lines() -> None:
    lines = Pool("lines", 1).records
    assert {type(line) for line in lines} == {str}
    assert all(92 <= len(line) <= 101 for line in lines)
    assert all(word.isalpha() and word.islower() for line in lines for word in line.split(" "))


def test_words_are_zipf_like() -> None:
    counts = [
        count for _, count in Counter(word for line in Pool("lines", 1).records for word in line.split()).most_common()
    ]
    assert 1500 < len(counts) <= 2000
    for rank in (2, 4, 8, 16):
        assert counts[0] / counts[rank - 1] == pytest.approx(rank, rel=0.15)


def test_numbers() -> None:
    numbers = Pool("numbers", 1).records
    assert {type(number) for number in numbers} == {int}
    assert 0 <= min(numbers) < 10_000
    assert 990_000 < max(numbers) <= 999_999


def test_pairs() -> None:
    for word, number in Pool("pairs", 1).records:
        assert type(word) is str
        assert type(number) is int


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 1),
        (5, 5),
        (0, POOL_RECORDS),
        (POOL_RECORDS - 1, POOL_RECORDS + 1),
        (3 * POOL_RECORDS - 10, 5 * POOL_RECORDS + 10),
    ],
)
def test_the_one_after_the_last_is_the_first(shape: Shape, start: int, stop: int) -> None:
    pool = Pool(shape, 1)
    expected = [pool.records[number % POOL_RECORDS] for number in range(start, stop)]
    assert pool.slice(start, stop) == expected
    table = pool.table(start, stop)
    if shape == "pairs":
        assert table is None
    else:
        assert table is not None
        assert table.column_names == ["value"]
        assert table["value"].to_pylist() == expected
