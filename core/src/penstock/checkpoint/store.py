"""``CheckpointStore``: the checkpoints of one directory.

Owns the files ``checkpoint-<number>`` there, each a framed JSON document written once under a name of its own, the
files of functions beside them, and the choice of the one to go on from: the newest that is sound. Keeps ten, as
Spark does. Called on the program's thread before the start, then on the writer's.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from penstock.checkpoint.manifest import Checkpoint, SavedFile
from penstock.errors import CheckpointError, WriteAheadLogError
from penstock.journal.frames import frame, read_frames
from penstock.runtime.log import get_logger
from penstock.storage.directory import Directory, Durability

log = get_logger("checkpoint")

_KEPT = 10
_NAME = re.compile(r"checkpoint-(\d{10})")
_PROGRAM = re.compile(r"program-[0-9a-f]{8}-\d+")


class CheckpointStore:
    """Read and write checkpoints.

    Args:
        directory: of the checkpoints.
        durability: what is done before one counts as written.
    """

    def __init__(self, directory: Directory, durability: Durability = Durability.FLUSH) -> None:
        self._directory, self._sync = directory, durability is Durability.FSYNC
        # Those of this run that are there, oldest first.
        self._kept: list[Checkpoint] = []

    def newest(self) -> Checkpoint | None:
        """The newest sound one; ``None`` when there is none at all. The loss of a newer one is told.

        Raises:
            CheckpointError: there are some, and none is sound; names each and what is wrong with it.
            OSError: the directory cannot be read.
        """
        wrong: list[str] = []
        for name in reversed(self._names()):
            try:
                found = self._read(name)
            except CheckpointError as error:
                wrong.append(f"{name}: {error}")
                continue
            if wrong:
                log.error(
                    "an older checkpoint is used: what is newer cannot be read",
                    directory=self._directory.location(),
                    used=name,
                    damaged=wrong,
                )
            return found
        if wrong:
            raise CheckpointError(
                f"Failed to read checkpoint from directory {self._directory.location()}: none is sound. "
                + "; ".join(wrong)
                + ". To start afresh, name another directory or move these files away"
            )
        return None

    @property
    def kept(self) -> Sequence[Checkpoint]:
        """This run's that are there, oldest first."""
        return self._kept

    def write(self, checkpoint: Checkpoint) -> Checkpoint:
        """Write one, then delete all but ten; what cannot be deleted is so the next time.

        Returns:
            The oldest that is kept, which a run may still go on from.

        Raises:
            OSError: it cannot be written; nothing is deleted.
        """
        name = _name(checkpoint)
        self._directory.write(name, frame(checkpoint.to_json()), sync=self._sync)
        self._kept = [*self._kept, checkpoint][-_KEPT:]
        try:
            self._delete_old()
        # It is written all the same.
        except OSError as error:
            log.warning("old checkpoints not deleted", written=name, reason=str(error))
        return self._kept[0]

    def keep(self, checkpoint: Checkpoint) -> None:
        """Count an earlier run's as one of this run's: until there are ten, it may be gone on from as well."""
        self._kept = [checkpoint]

    def _delete_old(self) -> None:
        kept = {_name(each) for each in self._kept}
        programs = {each.program.name for each in self._kept if each.program is not None}
        for old in self._directory.names():
            is_old = _NAME.fullmatch(old) and old not in kept
            if is_old or (_PROGRAM.fullmatch(old) and old not in programs):
                self._directory.delete(old)

    def write_program(self, data: bytes) -> SavedFile:
        """Write pickled functions; the same ones have the same name.

        Raises:
            OSError: they cannot be written.
        """
        checksum = zlib.crc32(data)
        saved = SavedFile(f"program-{checksum:08x}-{len(data)}", len(data), checksum)
        self._directory.write(saved.name, data, sync=self._sync)
        return saved

    def read_program(self, saved: SavedFile) -> bytes:
        """Read what ``write_program`` wrote.

        Raises:
            CheckpointError: it is not there, or not what was written.
        """
        try:
            data = self._directory.read(saved.name)
        except OSError as error:
            raise CheckpointError(f"{self._directory.location(saved.name)} cannot be read: {error}") from error
        if len(data) != saved.num_bytes or zlib.crc32(data) != saved.checksum:
            raise CheckpointError(f"{self._directory.location(saved.name)} is damaged: its checksum is another")
        return data

    def _names(self) -> list[str]:
        """By number, the oldest first."""
        return sorted(name for name in self._directory.names() if _NAME.fullmatch(name))

    def _read(self, name: str) -> Checkpoint:
        try:
            data = self._directory.read(name)
        except OSError as error:
            raise CheckpointError(f"it cannot be read: {error}") from error
        try:
            found = read_frames(data)
        except WriteAheadLogError as error:
            raise CheckpointError(str(error)) from error
        if len(found.sound) != 1 or found.damages or found.truncated_at is not None:
            raise CheckpointError("it is torn or damaged: its checksum does not match")
        return Checkpoint.from_json(found.sound[0].payload)

    def last_number(self) -> int:
        """The highest number that a file has, sound or not; 0 when there is none."""
        return max((int(name.rpartition("-")[2]) for name in self._names()), default=0)


def _name(checkpoint: Checkpoint) -> str:
    return f"checkpoint-{checkpoint.number:010d}"
