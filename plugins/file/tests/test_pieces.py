"""Files are divided into pieces, and pieces into partitions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings, strategies as st

from penstock_file.file_version import FileVersion
from penstock_file.pieces import MAX_PARTITION_BYTES, codec_of, partitions

MIB = 1 << 20


def versions(*sizes: int, ending: str = "") -> list[FileVersion]:
    return [FileVersion(f"f{number}{ending}", size, number) for number, size in enumerate(sizes)]


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 300 * MIB), max_size=20), st.sampled_from([None, 1, 7, 100, 1 << 30]), st.integers(1, 64)
)
def test_every_byte_is_read_once_and_in_order(sizes: list[int], unit: int | None, parallelism: int) -> None:
    files = versions(*sizes)
    groups = partitions(files, unit, parallelism)
    assert all(groups)
    pieces = list(itertools.chain.from_iterable(groups))
    assert [piece.number for piece in pieces] == list(range(len(pieces)))
    position = iter(pieces)
    for file in files:
        end = 0
        while end < file.size:
            piece = next(position)
            assert (piece.path, piece.size, piece.start) == (file.path, file.size, end)
            assert piece.stop > end
            assert unit is None or piece.start % unit == 0
            end = piece.stop
        assert end == file.size
    assert next(position, None) is None
    for partition in groups:
        num_bytes = sum(piece.stop - piece.start for piece in partition)
        splittable = unit is not None and unit < MIB and not any(piece.size % unit for piece in partition)
        assert not splittable or num_bytes <= MAX_PARTITION_BYTES * 1.1 + MIB


def test_small_files_share_a_partition() -> None:
    assert [len(partition) for partition in partitions(versions(*[1000] * 10), 1, 4)] == [3, 3, 3, 1]
    assert len(partitions(versions(*[1000] * 10_000), 1, 4)) < 200


def test_large_file_is_split_so_that_all_cores_work() -> None:
    assert len(partitions(versions(100 * MIB), 1, 4)) == 4
    assert len(partitions(versions(1000 * MIB), 1, 4)) == 16
    assert len(partitions(versions(5 * MIB), 1, 4)) == 2


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst", ".lz4"])
def test_compressed_file_is_not_split(ending: str) -> None:
    assert len(partitions(versions(1000 * MIB, ending=ending), 1, 4)) == 1


def test_what_a_function_reads_is_not_split() -> None:
    assert len(partitions(versions(1000 * MIB), None, 4)) == 1


def test_what_is_no_whole_number_of_records_is_not_split() -> None:
    assert len(partitions(versions(1000 * MIB + 1), 1024, 4)) == 1
    assert len(partitions(versions(1000 * MIB), 1024, 4)) == 16


@pytest.mark.parametrize(("path", "codec"), [("a.gz", "gzip"), ("/b/c.txt", None), ("c", None), ("x.zst", "zstd")])
def test_codec_follows_from_the_file_name(path: str, codec: str | None) -> None:
    assert codec_of(path) == codec
