"""Word count with Arrow's kernels: the same functions for Penstock's operators on columns and for their limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.programs.arrow_files import Position, record_batches


def words(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split the lines of record batches into words."""
    for batch in batches:
        yield pa.record_batch({"word": pc.list_flatten(pc.split_pattern(batch.column(0), " "))})


def counted(share: list[Position]) -> list[tuple[str, int]]:
    """Count the words of the record batches at these positions, in one thread."""
    counts = [
        pa.table([batch.column(0)], names=["word"]).group_by("word", use_threads=False).aggregate([([], "count_all")])
        for batch in words(record_batches(share))
    ]
    if not counts:
        return []
    total = pa.concat_tables(counts).group_by("word", use_threads=False).aggregate([("count_all", "sum")])
    return list(zip(total["word"].to_pylist(), total["count_all_sum"].to_pylist(), strict=True))
