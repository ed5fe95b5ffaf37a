"""``CheckpointStore``: the checkpoint files of one directory, each one framed JSON document.

The program's thread uses the store before the start, then the writer's thread.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.errors import CheckpointError, WriteAheadLogError
from penstock.journal.segment import MAX_FRAME_BYTES, frame, read_frames
from penstock.runtime.log import get_logger
from penstock.storage.claim import FileNumber
from penstock.storage.directory import Directory, Durability

log = get_logger("checkpoint")

_RETAINED = 10
# At least every fifth checkpoint is synced: a power failure loses the younger ones, and what they need is retained.
_UNSYNCED = 4
_SPARKS_NAME = re.compile(r"checkpoint-\d+(\.bk)?")
_PROGRAM = re.compile(r"program-[0-9a-f]{8}-\d+")


class CheckpointStore:
    """Reads and writes the checkpoints of a directory."""

    def __init__(self, directory: Directory, durability: Durability = Durability.FLUSH) -> None:
        self._directory = directory
        self._max_unsynced = 0 if durability is Durability.FSYNC else _UNSYNCED
        # Checkpoints of this run since the last synced one. The first is synced: it replaces those of earlier runs.
        self._unsynced = _UNSYNCED
        #: The checkpoints that a later run may recover from, oldest first.
        self.retained: list[Checkpoint] = []

    def newest(self) -> Checkpoint | None:
        """Read the newest sound checkpoint; ``None`` without files, an error if there are only damaged ones.

        An OSError is raised: it may pass, and the run would delete a newer checkpoint than the one it recovers from.
        """
        damaged: dict[str, str] = {}
        for name in reversed(self.names()):
            try:
                checkpoint = self.read(name)
            except CheckpointError as error:
                damaged[name] = str(error)
                continue
            if damaged:
                log.error(
                    "newer checkpoints damaged, using an older one",
                    directory=self._directory.location(),
                    used=name,
                    damaged=[f"{newer}: {reason}" for newer, reason in damaged.items()],
                )
            return checkpoint
        if damaged:
            raise CheckpointError(
                f"Failed to read checkpoint from directory {self._directory.location()}: no checkpoint is sound. "
                f"{_grouped(damaged)}. To start fresh, use another directory or move these files away"
            )
        return None

    @property
    def syncs_next(self) -> bool:
        """Whether ``write`` returns only when the disk has the next checkpoint."""
        return self._unsynced >= self._max_unsynced

    def refuse_checkpoints_of_spark(self) -> None:
        """Raise ``CheckpointError`` if the directory has checkpoints of Spark, and none of Penstock."""
        sparks = [name for name in self._directory.names() if _SPARKS_NAME.fullmatch(name)]
        if sparks and not self.names():
            raise CheckpointError(
                f"{self._directory.location(sparks[-1])} is a checkpoint of pyspark.streaming, which Penstock cannot "
                "read: name another directory, and the program starts fresh there. Let the old program stop "
                "gracefully first: it then leaves no unprocessed data behind"
            )

    def write(self, checkpoint: Checkpoint) -> Checkpoint:
        """Write a checkpoint, then delete all but the newest ten; return the oldest of these."""
        name = _name(checkpoint)
        syncs = self.syncs_next
        self._directory.write(name, frame(checkpoint.to_json(), MAX_FRAME_BYTES), sync=syncs)
        self._unsynced = 0 if syncs else self._unsynced + 1
        self.retained = [*self.retained, checkpoint][-_RETAINED:]
        try:
            self._delete_old()
        # The checkpoint itself has been written; the next write tries again.
        except OSError as error:
            log.warning("old checkpoints not deleted", written=name, reason=str(error))
        return self.retained[0]

    def _delete_old(self) -> None:
        names = self._directory.names()
        checkpoints = {f"checkpoint-{number}" for number in FileNumber.among("checkpoint", names)}
        programs = set(filter(_PROGRAM.fullmatch, names))
        for checkpoint in self.retained:
            checkpoints.discard(_name(checkpoint))
            programs.discard(checkpoint.program or "")
        for old in sorted(checkpoints | programs):
            self._directory.delete(old)
        # Left by drivers that were killed while they wrote.
        self._directory.delete_partial()

    def write_program(self, data: bytes) -> str:
        """Write a pickled program unless it is there, and return its file name; equal programs share one file.

        The disk has its bytes then, and its name with the next synced checkpoint.
        """
        name = _program_name(data)
        try:
            self.read_program(name)
        except CheckpointError:
            self._directory.write(name, data, sync=True)
        return name

    def read_program(self, name: str) -> bytes:
        """Read a pickled program; raises ``CheckpointError`` if the file is missing or damaged."""
        try:
            data = self._directory.read(name)
        except OSError as error:
            raise CheckpointError(f"{self._directory.location(name)} cannot be read: {error}") from error
        if _program_name(data) != name:
            raise CheckpointError(f"{self._directory.location(name)} is damaged: its checksum does not match")
        return data

    def names(self) -> list[str]:
        """Names of the checkpoint files, oldest first."""
        return [f"checkpoint-{number}" for number in self._numbers()]

    def read(self, name: str) -> Checkpoint:
        """Read one checkpoint; raises ``CheckpointError`` if it is damaged, or has another format version."""
        data = self._directory.read(name)
        try:
            frames = read_frames(data, MAX_FRAME_BYTES)
        except WriteAheadLogError as error:
            raise CheckpointError(str(error)) from error
        if [(record.start, record.end) for record in frames] != [(0, len(data))]:
            raise CheckpointError("it is truncated or damaged: its checksum does not match")
        return Checkpoint.from_json(frames[0].payload)

    def last_number(self) -> int:
        """The highest checkpoint number in the directory, sound or not; 0 if there is none."""
        return max((number for _claim, number in self._numbers()), default=0)

    def last_claim(self) -> int:
        """The highest number of a claim in the names of checkpoints; 0 if there is none."""
        return max((claim for claim, _number in self._numbers()), default=0)

    def _numbers(self) -> list[FileNumber]:
        return FileNumber.among("checkpoint", self._directory.names())


def _name(checkpoint: Checkpoint) -> str:
    return f"checkpoint-{FileNumber(checkpoint.claim, checkpoint.number)}"


def _program_name(data: bytes) -> str:
    return f"program-{zlib.crc32(data):08x}-{len(data)}"


def _grouped(damaged: Mapping[str, str]) -> str:
    """The damaged files, grouped by damage."""
    groups = {reason: [name for name in damaged if damaged[name] == reason] for reason in damaged.values()}
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in groups.items())
