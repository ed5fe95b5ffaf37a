"""Dictionary columns are stored like any other, although each chunk may have its own dictionary."""

from typing import Any

import pyarrow as pa
import pytest

from penstock import Block
from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import LocalBlockHandler


def encoded(*values: str) -> pa.Array:
    return pa.array(values).dictionary_encode()


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([encoded("x", "y"), encoded("z", "y")]),
        pa.chunked_array(
            [pa.ListArray.from_arrays([0, 2], encoded("x", "y")), pa.ListArray.from_arrays([0, 1], encoded("z"))]
        ),
        pa.chunked_array(
            [pa.StructArray.from_arrays([encoded("x")], ["a"]), pa.StructArray.from_arrays([encoded("z")], ["a"])]
        ),
    ],
    ids=["plain", "list", "struct"],
)
def test_chunks_with_dictionaries_of_their_own_are_stored(store: LocalBlockHandler, column: pa.ChunkedArray) -> None:
    table = arrow_form.from_columns(pa.table({"word": column}))
    store.store(Block("input-0-1-0", 0, table.num_rows, table))
    reader = store.open("input-0-1-0")
    back: list[Any] = list(arrow_form.records(map(reader.get_batch, range(reader.num_record_batches))))
    assert back == column.to_pylist()
