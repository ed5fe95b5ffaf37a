"""Example blocks, and a store for them."""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from penstock import Block
from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.storage import uri


@pytest.fixture
def store(tmp_path: Path) -> LocalBlockHandler:
    return LocalBlockHandler(tmp_path / "blocks")


@pytest.fixture
def make_block() -> Callable[..., Block]:
    def make(records: Sequence[Any], block_id: str = "input-0-1-0", metadata: dict[str, Any] | None = None) -> Block:
        return Block(block_id, 0, len(records), arrow_form.encode(records), metadata)

    return make


@pytest.fixture(params=["path", "file URI", "mock", "subtree"])
def checkpoint_directory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A checkpoint directory, of this host and of other file systems: one in memory, one that is a folder really."""
    if request.param == "subtree":
        subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        monkeypatch.setattr(uri, "connect", lambda location: (subtree, location.removeprefix("subtree://")))
        return "subtree:///check point"
    return {
        "path": str(tmp_path / "check point"),
        "file URI": (tmp_path / "check point").as_uri(),
        # A directory is connected to once, and what is in memory is there as long as the connection.
        "mock": f"mock:///{uuid.uuid4().hex}",
    }[request.param]
