"""``inspect``: what a checkpoint directory holds and whether a program can recover from it, without Spark.

Reads checkpoints and write-ahead logs, which are JSON with checksums, and the names of all other files. It never
unpickles anything, so it runs no code of a program, and it changes nothing. Runs on the calling thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from attrs import Factory, define, frozen

from penstock import PenstockError, StoredBlock
from penstock.spi import (
    Checkpoint,
    CheckpointStore,
    Directory,
    open_block_file,
    stream_directory,
    text_of,
)
from penstock_cli.saved_logs import SavedLog, saved_logs

_ON_DAMAGE = "spark.penstock.checkpoint.onDamage"
_ON_LOST_BLOCKS = "spark.penstock.blocks.onLost"

#: What a program that starts on the directory would do. ``skip``: it refuses, unless damage is to be skipped.
Verdict = Literal["nothing", "refused", "skip", "yes"]

NOT_READ = (
    "the saved program: it is pickled code, and reading it would run it. Only its checksum was verified",
    "checkpointed RDDs and state stores: their files were counted",
)


@frozen
class CheckpointFile:
    """One file of a checkpoint.

    Attributes:
        name: in the directory.
        num_bytes: its size.
        damage: why it cannot be used; empty if it is sound.
    """

    name: str
    num_bytes: int
    damage: str = ""


@frozen
class StreamBlocks:
    """The blocks of one receiver in its write-ahead log.

    Attributes:
        stream_id: id of the input stream.
        blocks: blocks that a recovered run would have.
        records: their records.
        num_bytes: their size.
        unallocated: records among them that belong to no batch yet.
        files: files in the stream's folder.
        missing: blocks without a file.
    """

    stream_id: int
    blocks: int
    records: int
    num_bytes: int
    unallocated: int
    files: int
    missing: int = 0


@define
class Inspection:
    """What a checkpoint directory holds.

    Attributes:
        directory: its location.
        checkpoints: oldest first.
        newest: the checkpoint that a program recovers from; ``None`` if none is sound.
        logs: the write-ahead logs.
        blocks: the receivers' blocks, by stream.
        damage: everything that is wrong, a sentence each.
        verdict: whether a program can recover.
        reason: the verdict as a sentence, with what to do.
    """

    directory: str
    checkpoints: list[CheckpointFile] = Factory(list)
    newest: Checkpoint | None = None
    logs: list[SavedLog] = Factory(list)
    blocks: list[StreamBlocks] = Factory(list)
    damage: list[str] = Factory(list)
    verdict: Verdict = "nothing"
    reason: str = "no checkpoint is here: a program that uses this directory starts fresh"


def inspect(location: str, *, verifies_blocks: bool = False) -> Inspection:
    """Inspect a checkpoint directory.

    Args:
        location: a path or URI.
        verifies_blocks: read every block's file and compare its checksum.

    Raises:
        ConfigurationError: no file system answers to the location.
        OSError: the directory cannot be read.
    """
    directory = Directory.of(location)
    found = Inspection(directory.location())
    store = CheckpointStore(directory)
    for name in store.names():
        try:
            found.newest = store.read(name)
            damage = ""
        except PenstockError as error:
            damage = str(error)
            found.damage.append(f"{name}: {damage}")
        found.checkpoints.append(CheckpointFile(name, len(directory.read(name)), damage))
    if found.newest is None:
        if not directory.names():
            found.reason = (
                "no checkpoint is here, the directory has no files or does not exist: "
                "a program that uses it starts fresh"
            )
        if found.checkpoints:
            found.verdict = "refused"
            found.reason = "no checkpoint is sound: use another directory, or move these files away to start fresh"
        return found
    found.verdict, found.reason = "yes", "a program can recover from here, and nothing is missing"
    if found.checkpoints[-1].damage:
        found.reason = f"a program recovers from checkpoint {found.newest.number}; later batches run again"
    _add_program(found, store, found.newest)
    _add_states(found, directory, found.newest)
    try:
        _add_logs(found, directory, found.newest, verifies_blocks=verifies_blocks)
    except PenstockError as error:
        found.damage.append(str(error))
        found.verdict, found.reason = "refused", "a write-ahead log cannot be read: restore its files"
    return found


def _add_program(found: Inspection, store: CheckpointStore, newest: Checkpoint) -> None:
    if newest.program is not None:
        try:
            store.read_program(newest.program)
        except PenstockError as error:
            found.damage.append(str(error))
            found.reason = "a program can recover its state from here; its own code must rebuild its streams"


def _add_states(found: Inspection, directory: Directory, newest: Checkpoint) -> None:
    for state in newest.states:
        for time_ms, path in sorted(state.files.items()):
            parts = [name for name in directory.child(path).names() if name.startswith("part-")]
            if len(parts) < state.num_partitions:
                found.damage.append(
                    f"{directory.location(path)}: {len(parts)} of {state.num_partitions} partitions of the state of "
                    f"{state.name} at batch {time_ms} ms are here"
                )
                found.reason = "a program can recover from here only if it needs no state whose files are missing"


def _add_logs(found: Inspection, directory: Directory, newest: Checkpoint, *, verifies_blocks: bool) -> None:
    """Add both logs and the received blocks.

    Raises:
        PenstockError: a log cannot be read, or was written by another version.
    """
    for log in saved_logs(directory, newest):
        found.logs.append(log)
        if log.damages:
            found.damage += log.damages
            found.verdict = "skip"
            found.reason = (
                f"a program refuses to start, naming this damage; with {_ON_DAMAGE}=skip it recovers without the lost "
                "records and reports how many"
            )
        found.blocks += _blocks(found, log, verifies_blocks)


def _blocks(found: Inspection, log: SavedLog, verifies: bool) -> Iterator[StreamBlocks]:
    for stream_id in sorted({block.stream_id for block in log.blocks}):
        files = Directory.of(stream_directory(found.directory, stream_id))
        names = files.names()
        blocks = [block for block in log.blocks if block.stream_id == stream_id]
        damaged = list(_damaged_blocks(blocks, files, set(names), verifies=verifies))
        yield StreamBlocks(
            stream_id,
            len(blocks),
            _records(blocks),
            sum(block.num_bytes for block in blocks),
            _records(block for block in log.unallocated if block.stream_id == stream_id),
            len(names),
            len(damaged),
        )
        if damaged:
            found.damage += damaged
            lost = f"batches that need the lost blocks fail; with {_ON_LOST_BLOCKS}=skip they run without them"
            if lost not in found.reason:
                found.reason = f"{found.reason}. Then {lost}" if found.verdict == "skip" else lost
            found.verdict = "skip"


def _damaged_blocks(
    blocks: Iterable[StoredBlock], files: Directory, names: set[str], *, verifies: bool
) -> Iterator[str]:
    home = "/".join(["", *files.location().rsplit("/", 2)[1:], ""])
    for block in blocks:
        # A plugin may have stored it elsewhere.
        if home not in block.path:
            continue
        name = block.path.rpartition("/")[2]
        if name not in names:
            yield f"{files.location(name)} is missing: {block.num_records} records"
        elif verifies:
            try:
                open_block_file(files.location(name), block.checksum)
            except (PenstockError, OSError) as error:
                yield f"{text_of(error)}: {block.num_records} records"


def _records(blocks: Iterable[StoredBlock]) -> int:
    return sum(block.num_records for block in blocks)
