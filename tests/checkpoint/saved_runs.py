"""Writes the files of a run to a checkpoint directory, as the engine does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.checkpoint.samples import FIRST

from penstock import Block, StoredBlock
from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, stream_directory
from penstock.checkpoint.checkpoint_format import BLOCK_LOG, COMPLETED_OUTPUTS
from penstock.checkpoint.completed_outputs import CompletedOutputs
from penstock.conf import Settings
from penstock.journal.frames import frame
from penstock.journal.write_ahead_log import LogState, WriteAheadLog
from penstock.runtime.clock import SystemClock
from penstock.storage.directory import Directory
from penstock.track.allocations import Allocations, batch_allocated, blocks_added


class OfTheFuture:
    """A log's state whose only event is unknown to this version."""

    def apply(self, event: dict[str, Any]) -> None:
        pass

    def events(self) -> list[dict[str, Any]]:
        return [{"what": "of the future"}]


def stored(directory: Path, number: int) -> StoredBlock:
    """A block of ten records in the log of stream 0."""
    handler = WriteAheadLogBlockHandler(stream_directory(str(directory), 0))
    table = arrow_form.encode([f"{number}-{record}" for record in range(10)])
    return handler.store(Block(f"input-0-1-{number}", 0, 10, table))


def log_blocks(directory: Path, *blocks: StoredBlock, allocated: int = 0, state: LogState | None = None) -> int:
    """Log blocks, the first ones allocated to batch 1000; return the number of logged events."""
    wal = _log(directory, BLOCK_LOG)
    wal.recover(Allocations() if state is None else state)
    wal.start()
    for block in blocks:
        wal.append(blocks_added([block]))
    if allocated:
        wal.append(batch_allocated(1000, {0: [block.block_id for block in blocks[:allocated]]}))
    wal.close()
    return wal.last_number


def log_completed_output(directory: Path) -> None:
    """Log that an output operation of batch 1000 has completed."""
    outputs = CompletedOutputs(_log(directory, COMPLETED_OUTPUTS), {0: "pprint-0"})
    outputs.start()
    outputs.note(1000, 0)
    outputs.close()


def write_framed(path: Path, payload: bytes) -> None:
    """Write a file that consists of one sound record."""
    path.write_bytes(frame(payload))


def _log(directory: Path, name: str) -> WriteAheadLog:
    return WriteAheadLog(Directory.of(str(directory)).child(name), FIRST.run, Settings.parse({}), SystemClock())
