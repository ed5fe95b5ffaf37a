"""Blocks, and a store for them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock import Block
from penstock.blocks import arrow_form
from penstock.blocks.block_store import BlockStore


@pytest.fixture
def store(tmp_path: Path) -> BlockStore:
    return BlockStore(tmp_path / "blocks")


@pytest.fixture
def make_block() -> Callable[..., Block]:
    def make(records: Sequence[Any], block_id: str = "input-0-1-0", metadata: dict[str, Any] | None = None) -> Block:
        return Block(block_id, 0, len(records), arrow_form.encode(records), metadata)

    return make
