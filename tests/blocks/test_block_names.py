"""Block names from the network: ``delete`` and ``open`` never take them for paths."""

from collections.abc import Callable

import pytest

from penstock import Block
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.errors import BlockGoneError


@pytest.mark.parametrize("name", ["nul\0inside", "x" * 5000, "\ud800"], ids=["nul", "long", "surrogate"])
def test_impossible_file_name_is_a_missing_block(store: LocalBlockHandler, name: str) -> None:
    with pytest.raises(BlockGoneError):
        store.open(name)
    assert store.delete([name]) == 0


@pytest.mark.parametrize("name", ["../input-0-1-0", "/input-0-1-0", "elsewhere/input-0-1-0"])
def test_path_as_a_block_id_deletes_nothing(
    store: LocalBlockHandler, make_block: Callable[..., Block], name: str
) -> None:
    store.store(make_block([1]))
    assert store.delete([name]) == 0
    assert store.open("input-0-1-0").num_record_batches == 1
