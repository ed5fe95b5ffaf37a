"""``inspect``: reports the content of a checkpoint directory and whether a program can recover from it, without Spark.

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

#: The way in which a program would start on the directory. ``skip``: only if the configuration lets it skip damage.
Verdict = Literal["nothing", "refused", "skip", "yes"]

NOT_READ = (
    "the saved program: it is pickled code, and reading it would run it. Only its checksum was verified",
    "checkpointed RDDs and state stores: their files were counted",
)


@frozen
class CheckpointFile:
    """One file of a checkpoint.

    Attributes:
        name: file name in the directory.
        num_bytes: file size.
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
        blocks: number of blocks that a recovered run would have.
        records: number of records in the blocks.
        num_bytes: total size of the blocks.
        unallocated: records among them that belong to no batch yet.
        files: number of files in the stream's folder.
        missing: number of blocks without a file.
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
    """The content of a checkpoint directory.

    Attributes:
        directory: its location.
        checkpoints: oldest first.
        newest: the checkpoint that a program recovers from; ``None`` if none is sound.
        logs: the write-ahead logs.
        blocks: the receivers' blocks, by stream.
        damage: one sentence per problem.
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
        ConfigurationError: no file system supports the location.
        OSError: the directory cannot be read.
    """
    directory = Directory.of(location)
    inspection = Inspection(directory.location())
    store = CheckpointStore(directory)
    for name in store.names():
        try:
            inspection.newest = store.read(name)
            damage = ""
        except PenstockError as error:
            damage = str(error)
            inspection.damage.append(f"{name}: {damage}")
        inspection.checkpoints.append(CheckpointFile(name, len(directory.read(name)), damage))
    if inspection.newest is None:
        if not directory.names():
            inspection.reason = (
                "no checkpoint is here, the directory has no files or does not exist: "
                "a program that uses it starts fresh"
            )
        if inspection.checkpoints:
            inspection.verdict = "refused"
            inspection.reason = "no checkpoint is sound: use another directory, or move these files away to start fresh"
        return inspection
    inspection.verdict, inspection.reason = "yes", "a program can recover from here, and nothing is missing"
    if inspection.checkpoints[-1].damage:
        inspection.reason = f"a program recovers from checkpoint {inspection.newest.number}; later batches run again"
    _add_program(inspection, store, inspection.newest)
    _add_states(inspection, directory, inspection.newest)
    try:
        _add_logs(inspection, directory, inspection.newest, verifies_blocks=verifies_blocks)
    except PenstockError as error:
        inspection.damage.append(str(error))
        inspection.verdict, inspection.reason = "refused", "a write-ahead log cannot be read: restore its files"
    return inspection


def _add_program(inspection: Inspection, store: CheckpointStore, newest: Checkpoint) -> None:
    if newest.program is not None:
        try:
            store.read_program(newest.program)
        except PenstockError as error:
            inspection.damage.append(str(error))
            inspection.reason = "a program can recover its state from here; its own code must rebuild its streams"


def _add_states(inspection: Inspection, directory: Directory, newest: Checkpoint) -> None:
    for state in newest.states:
        for time_ms, path in sorted(state.files.items()):
            parts = [name for name in directory.child(path).names() if name.startswith("part-")]
            if len(parts) < state.num_partitions:
                inspection.damage.append(
                    f"{directory.location(path)}: {len(parts)} of {state.num_partitions} partitions of the state of "
                    f"{state.name} at batch {time_ms} ms are here"
                )
                inspection.reason = "a program can recover from here only if it needs no state whose files are missing"


def _add_logs(inspection: Inspection, directory: Directory, newest: Checkpoint, *, verifies_blocks: bool) -> None:
    """Add both logs and the received blocks.

    Raises:
        PenstockError: a log cannot be read, or was written by another version.
    """
    for log in saved_logs(directory, newest):
        inspection.logs.append(log)
        if log.damages:
            inspection.damage += log.damages
            inspection.verdict = "skip"
            inspection.reason = (
                f"a program refuses to start, naming this damage; with {_ON_DAMAGE}=skip it recovers without the lost "
                "records and reports how many"
            )
        inspection.blocks += _blocks(inspection, log, verifies_blocks)


def _blocks(inspection: Inspection, log: SavedLog, verifies: bool) -> Iterator[StreamBlocks]:
    for stream_id in sorted({block.stream_id for block in log.blocks}):
        files = Directory.of(stream_directory(inspection.directory, stream_id))
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
            inspection.damage += damaged
            lost = f"batches that need the lost blocks fail; with {_ON_LOST_BLOCKS}=skip they run without them"
            if lost not in inspection.reason:
                inspection.reason = f"{inspection.reason}. Then {lost}" if inspection.verdict == "skip" else lost
            inspection.verdict = "skip"


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
