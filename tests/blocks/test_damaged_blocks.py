"""A damaged block file in the write-ahead log is an error that names it: never other records, never a crash."""

from __future__ import annotations

import os
import random
import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from penstock import Block, StoredBlock
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, stream_directory
from penstock.errors import BlockDamagedError
from penstock.storage import uri
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks

FLIPS, SEED = 100, 20_250_101


class Damaged:
    """A stored block whose file the test damages."""

    def __init__(self, log: WriteAheadLogBlockHandler, block: Block) -> None:
        self.stored = log.store(block)
        self.content = self._read()

    def _split(self) -> tuple[Any, str]:
        directory, _, name = self.stored.path.rpartition("/")
        system, home = uri.connect(directory)
        return system, f"{home}/{name}"

    def _read(self) -> bytes:
        if not uri.is_remote(self.stored.path):
            return Path(self.stored.path).read_bytes()
        system, path = self._split()
        with system.open_input_file(path) as file:
            content: bytes = file.read()
        return content

    def write(self, content: bytes) -> None:
        if not uri.is_remote(self.stored.path):
            Path(self.stored.path).write_bytes(content)
            return
        system, path = self._split()
        with system.open_output_stream(path) as file:
            file.write(content)

    def records(self, *, skips_lost: bool = False, more: Sequence[StoredBlock] = ()) -> list[Any]:
        references = [
            BlockReference(block.block_id, block.path, block.num_records, "", 0, block.checksum)
            for block in (self.stored, *more)
        ]
        return list(ReadBlocks(Token("t"), skips_lost=skips_lost)(0, [tuple(references)]))

    def check(self, content: bytes) -> None:
        """Check that the file is refused with this content."""
        self.write(content)
        with pytest.raises(BlockDamagedError, match=re.escape(self.stored.path)):
            self.records()


@pytest.fixture
def damaged(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_block: Callable[..., Block]
) -> Damaged:
    """A block on the file system, and with the content, that the test's parameter names."""
    place, content = request.param.split(", ", 1)
    home = str(tmp_path / "check point")
    if place == "subtree":
        subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        monkeypatch.setattr(uri, "connect", lambda location: (subtree, location.removeprefix("subtree://")))
        home = "subtree:///check point"
    elif place.startswith("mock"):
        home = f"mock:///{uuid.uuid4().hex}"
    if place.endswith("in pieces"):
        # A large remote file is checked piece by piece.
        monkeypatch.setattr(arrow_form, "_IN_MEMORY_BYTES", 100)
    records = {"typed": ["a", "b", "c"], "pickled": [1, None, "x"]}[content]
    return Damaged(WriteAheadLogBlockHandler(stream_directory(home, 0)), make_block(records))


# Every bit and every length on the local file system. The others only read differently: a seeded sample there.
everywhere = pytest.mark.parametrize(
    "damaged",
    ["path, typed", "path, pickled", "mock, typed", "mock in pieces, pickled", "subtree, pickled"],
    indirect=True,
)
locally = pytest.mark.parametrize("damaged", ["path, typed"], indirect=True)


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@locally
def test_file_truncated_at_any_byte_is_refused(damaged: Damaged) -> None:
    for length in range(len(damaged.content)):
        damaged.check(damaged.content[:length])


@locally
def test_file_with_any_bit_flipped_is_refused(damaged: Damaged) -> None:
    path, checksum = damaged.stored.path, damaged.stored.checksum
    with Path(path).open("r+b", buffering=0) as file:
        for bit in range(8 * len(damaged.content)):
            byte = damaged.content[bit // 8]
            os.pwrite(file.fileno(), bytes([byte ^ 1 << bit % 8]), bit // 8)
            # Called directly: reading through a task's function takes three times as long.
            with pytest.raises(BlockDamagedError):
                arrow_form.open_block_file(path, checksum)
            os.pwrite(file.fileno(), bytes([byte]), bit // 8)


@everywhere
def test_truncated_file_is_refused_on_every_file_system(damaged: Damaged) -> None:
    for length in random.Random(SEED).sample(range(len(damaged.content)), 20):
        damaged.check(damaged.content[:length])


@everywhere
def test_file_with_a_flipped_bit_is_refused_on_every_file_system(damaged: Damaged) -> None:
    for bit in random.Random(SEED).sample(range(8 * len(damaged.content)), FLIPS):
        damaged.check(flipped(damaged.content, bit))


@everywhere
def test_file_with_other_content_is_refused(damaged: Damaged, make_block: Callable[..., Block]) -> None:
    damaged.check(damaged.content + b"\0")
    damaged.check(bytes(len(damaged.content)))
    damaged.check(b"garbage" + damaged.content)
    damaged.check(damaged.content * 2)


@everywhere
def test_restored_file_is_read_again(damaged: Damaged) -> None:
    before = damaged.records()
    damaged.check(damaged.content[:-1])
    damaged.write(damaged.content)
    assert damaged.records() == before


def test_error_has_both_checksums(tmp_path: Path, make_block: Callable[..., Block]) -> None:
    log = WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 0))
    damaged = Damaged(log, make_block(["a"]))
    damaged.write(b"x")
    with pytest.raises(BlockDamagedError) as caught:
        damaged.records()
    assert str(caught.value) == (
        f"the block file {damaged.stored.path} is damaged: its checksum is 8cdc1683, "
        f"and was {damaged.stored.checksum:08x} when it was stored. With spark.penstock.blocks.onLost=skip batches "
        "run without lost blocks"
    )


def test_damaged_block_is_skipped_with_policy_skip(tmp_path: Path, make_block: Callable[..., Block]) -> None:
    log = WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 0))
    damaged, sound = Damaged(log, make_block(["a"])), log.store(make_block(["b"], "input-0-1-1"))
    damaged.write(damaged.content[:-1])
    assert damaged.records(skips_lost=True, more=[sound]) == ["b"]
