"""A large columnar batch is stored as several record batches, of which a reader holds one at a time."""

import pyarrow as pa
import pytest

from penstock import Block
from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import LocalBlockHandler


@pytest.mark.parametrize("columns", [["a"], ["a", "b"]], ids=["one column", "two columns"])
def test_one_large_batch_is_stored_as_several(store: LocalBlockHandler, columns: list[str]) -> None:
    batch = pa.record_batch({name: list(range(100_000)) for name in columns})
    table = arrow_form.from_columns(batch)
    store.store(Block("input-0-1-0", 0, table.num_rows, table))
    reader = store.open("input-0-1-0")
    sizes = [reader.get_batch(n).num_rows for n in range(reader.num_record_batches)]
    assert sum(sizes) == 100_000
    assert max(sizes) <= 16_384
