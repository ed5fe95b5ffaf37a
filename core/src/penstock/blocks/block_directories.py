"""The block directories of runs on this host: a run claims its own and deletes those of dead runs.

Every run notes its directory and the process that owns it in a file in this user's own folder in the temporary
directory, because a killed run leaves its blocks. A directory is deleted only if it has the run's name and marker file,
belongs to this user, and the owner process has ended. If the owner is an executor, a driver on another host may still
read the blocks. Then the directory must also have been unchanged for an hour. Containers may share the folders. Nobody
here can tell whether a process of another one lives: its directory must have been unchanged for a week.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil
from attrs import frozen

from penstock.errors import WireError
from penstock.runtime.boot import boot_id
from penstock.runtime.log import get_logger
from penstock.runtime.private_files import atomic_write, make_private, temporary_directory
from penstock.wire.json_codec import from_json, to_json

log = get_logger("block_directories")

#: Name of the parent directory of all block directories.
PARENT = "penstock"
_MARKER = ".penstock-run"
_GRACE_S = 3600.0
_FOREIGN_GRACE_S = 7 * 86_400.0
# When the wall clock is set, the creation time of a running process moves with it. The tolerance is wide, because
# mistaking a running process for a dead one would delete blocks in use. The opposite mistake only delays a deletion.
_CLOCK_STEP_S = 600.0


@frozen
class Process:
    """A process. ``create_time``, seconds since the epoch, distinguishes it from a later one with the same pid.

    ``namespace`` names the kernel since its boot, and the namespace of the pid in it.
    """

    pid: int
    create_time: float
    namespace: str = ""

    @classmethod
    def of(cls, pid: int) -> Process:
        """Look up a running process; raises ProcessLookupError if there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time(), _namespace())
        except psutil.Error as error:
            raise ProcessLookupError(f"no process {pid}: {error}") from None

    @property
    def is_foreign(self) -> bool:
        """Whether the process is of another host or container, or of before the boot."""
        return self.namespace != _namespace()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs; false for a foreign one."""
        if self.is_foreign:
            return False
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.create_time) < _CLOCK_STEP_S
            return is_same and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        except psutil.Error:
            return False


@frozen
class _Note:
    """A directory that is unused once ``owner`` has ended and no file has changed for ``grace_s``."""

    directory: str
    owner: Process
    grace_s: float

    @property
    def may_be_in_use(self) -> bool:
        grace_s = _FOREIGN_GRACE_S if self.owner.is_foreign else self.grace_s
        return self.owner.is_alive or _unchanged_s(Path(self.directory)) < grace_s


@cache
def _namespace() -> str:
    """The boot of this host, and this process's namespace of pids if the system has any."""
    try:
        return f"{boot_id()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def executor_process() -> Process:
    """The owner of local blocks: the JVM above this Python worker, or this process's parent without a JVM."""
    ancestors = psutil.Process().parents()
    return Process.of(next((process.pid for process in ancestors if process.name() == "java"), os.getppid()))


def claim(directory: Path, driver: Process | None) -> None:
    """Note that a run uses a directory for its blocks; without ``driver`` on this machine the executor owns it."""
    try:
        owner = driver or executor_process()
        make_private(directory)
        with atomic_write(directory / _MARKER) as unfinished:
            unfinished.write_text(directory.name)
        note = _Note(str(directory), owner, grace_s=0.0 if driver else _GRACE_S)
        with atomic_write(temporary_directory() / f"{directory.name}-{owner.pid}.json") as unfinished:
            unfinished.write_bytes(to_json(note))
    except OSError as error:
        effect = "it remains if the run is killed"
        log.warning(
            "block directory not noted for deletion", directory=str(directory), reason=str(error), effect=effect
        )


def sweep() -> list[Path]:
    """Delete and return the block directories of runs that have ended. A failure is logged."""
    swept: list[Path] = []
    try:
        by_path = {path: _read(path) for path in sorted(temporary_directory().glob("*.json"))}
        # Executors of one run on one host share a directory.
        in_use = {note.directory for note in by_path.values() if note is not None and note.may_be_in_use}
        for path, note in by_path.items():
            if note is not None:
                if note.may_be_in_use:
                    continue
                directory = Path(note.directory)
                if note.directory not in in_use and _is_ours(directory):
                    shutil.rmtree(directory, ignore_errors=True)
                    swept.append(directory)
            path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("block directories of earlier runs not deleted", reason=str(error))
    if swept:
        log.info("block directories of earlier runs deleted", directories=len(swept))
    return swept


def _read(path: Path) -> _Note | None:
    """Read a note; ``None`` if the file is not a note or was deleted by another program."""
    try:
        return from_json(_Note, path.read_bytes())
    except (FileNotFoundError, WireError):
        return None


def _unchanged_s(directory: Path) -> float:
    """Seconds since the last change in a directory; since the epoch if the directory does not exist."""
    changed_s = 0.0
    with suppress(OSError):
        for path in (directory, *directory.iterdir()):
            # The driver deletes blocks at any time.
            with suppress(FileNotFoundError):
                changed_s = max(changed_s, path.stat().st_mtime)
    return time.time() - changed_s


def _is_ours(directory: Path) -> bool:
    """Whether name, marker and owner of a directory are those of a run of this user, and it is not a link."""
    try:
        return (
            directory.is_absolute()
            and directory.parent.name == PARENT
            and not directory.is_symlink()
            and directory.is_dir()
            and directory.stat().st_uid == os.getuid()
            and (directory / _MARKER).read_text() == directory.name
        )
    except OSError:
        return False
