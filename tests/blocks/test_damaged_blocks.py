"""A file of the block log that is not what was stored is an error that names it: never other records, never a crash."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock import Block, StoredBlock
from penstock.blocks import block_file
from penstock.blocks.block import BlockReference
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, stream_directory
from penstock.errors import BlockDamagedError
from penstock.storage import uri
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks

FLIPS, SEED = 1000, 20_250_101


class Damaged:
    """A block's file, and what is made of it."""

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
            BlockReference(each.block_id, each.path, each.num_records, "", 0, each.checksum)
            for each in (self.stored, *more)
        ]
        return list(ReadBlocks(Token("t"), skips_lost=skips_lost)(0, [tuple(references)]))

    def check(self, content: bytes) -> None:
        """See that the file is refused with such a content."""
        self.write(content)
        with pytest.raises(BlockDamagedError, match=re.escape(self.stored.path)):
            self.records()


@pytest.fixture(params=["whole", "in pieces"], autouse=True)
def _memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in pieces":
        monkeypatch.setattr(block_file, "_IN_MEMORY_BYTES", 100)


@pytest.fixture(params=[["a", "b", "c"], [1, None, "x"]], ids=["typed", "pickled"])
def damaged(request: pytest.FixtureRequest, checkpoint_directory: str, make_block: Callable[..., Block]) -> Damaged:
    return Damaged(WriteAheadLogBlockHandler(stream_directory(checkpoint_directory, 0)), make_block(request.param))


def test_a_file_that_is_cut_off_anywhere(damaged: Damaged) -> None:
    for length in range(len(damaged.content)):
        damaged.check(damaged.content[:length])


def test_a_file_with_a_bit_flipped_anywhere(damaged: Damaged) -> None:
    chance = random.Random(SEED)
    for _ in range(FLIPS):
        content = bytearray(damaged.content)
        bit = chance.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        damaged.check(bytes(content))


def test_a_file_with_other_content(damaged: Damaged, make_block: Callable[..., Block]) -> None:
    damaged.check(damaged.content + b"\0")
    damaged.check(bytes(len(damaged.content)))
    damaged.check(b"garbage" + damaged.content)
    damaged.check(damaged.content * 2)


def test_it_is_sound_again_when_it_is_what_was_stored(damaged: Damaged) -> None:
    before = damaged.records()
    damaged.check(damaged.content[:-1])
    damaged.write(damaged.content)
    assert damaged.records() == before


def test_the_message_has_both_checksums(tmp_path: Path, make_block: Callable[..., Block]) -> None:
    log = WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 0))
    damaged = Damaged(log, make_block(["a"]))
    damaged.write(b"x")
    with pytest.raises(BlockDamagedError) as caught:
        damaged.records()
    assert str(caught.value) == (
        f"the block file {damaged.stored.path} is damaged: its checksum is 8cdc1683, "
        f"and was {damaged.stored.checksum:08x} when it was stored"
    )


def test_it_can_be_left_out(tmp_path: Path, make_block: Callable[..., Block]) -> None:
    log = WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 0))
    damaged, sound = Damaged(log, make_block(["a"])), log.store(make_block(["b"], "input-0-1-1"))
    damaged.write(damaged.content[:-1])
    assert damaged.records(skips_lost=True, more=[sound]) == ["b"]
