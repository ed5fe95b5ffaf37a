"""The directories of runs' blocks on one host, and the sweeping of those that dead runs left behind.

Owns the notes that make both possible: a small file for each run, in a folder of this user's alone, with the directory
and the process that the run lives and dies with. Deletes a directory only if it bears that run's name and mark, is this
user's own, and that process is gone; whatever else is there is not touched. Where that process is an executor, the
driver may live on elsewhere and read what the executor left: then an hour must have passed, too. Called when a receiver
is launched.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from penstock.runtime.atomic_write import atomic_write
from penstock.runtime.log import get_logger

log = get_logger("leftovers")

PARENT = "penstock"
_MARK = ".penstock-run"
_PROC = Path("/proc")
_PATIENCE_S = 3600.0


@frozen
class Process:
    """A process, told apart from a later one of the same number.

    Attributes:
        pid: its number.
        started: when, in the kernel's ticks since boot.
        boot: which boot.
    """

    pid: int
    started: str
    boot: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Look a running process up; ``None`` when there is none, or this system does not tell."""
        try:
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return None
        # One that nobody has asked for its end yet is dead.
        return None if fields[0] in "ZX" else cls(pid, fields[19], boot)

    @property
    def parent(self) -> int:
        """The number of its parent; 0 for none."""
        try:
            return int((_PROC / str(self.pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return 0

    @property
    def name(self) -> str:
        """Its command, short."""
        try:
            return (_PROC / str(self.pid) / "comm").read_text().strip()
        except OSError:
            return ""

    @property
    def is_alive(self) -> bool:
        """Whether it runs still."""
        return Process.of(self.pid) == self


def executor_process() -> Process | None:
    """The process that blocks live and die with: the JVM above this Python worker, else this process's parent."""
    first = process = Process.of(os.getppid())
    while process is not None and process.name != "java":
        process = Process.of(process.parent) if process.parent else None
    return process or first


def claim(directory: Path, driver: Process | None, notes: Path | None = None) -> None:
    """Note that a run keeps its blocks in a directory, and which process it lives with. Harmless when repeated.

    Args:
        directory: ``…/penstock/<run id>``.
        driver: of the run, when it is on this machine; else the executor counts, and time.
        notes: where notes are kept; this user's own folder by default.
    """
    owner = driver or executor_process()
    # Where processes cannot be told apart nothing is noted, and nothing swept.
    if owner is None:
        return
    patience_s = 0.0 if driver else _PATIENCE_S
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / _MARK).write_text(directory.name)
        folder = _own_folder(notes)
        note = folder / f"{directory.name}-{owner.pid}.json"
        with atomic_write(note) as unfinished:
            unfinished.write_text(
                json.dumps({"directory": str(directory), "owner": asdict(owner), "patience_s": patience_s})
            )
    # Sweeping is for later: what cannot be noted now stays, and nothing fails of it.
    except OSError as error:
        log.warning("block directory not noted for sweeping", directory=str(directory), reason=str(error))


def sweep(notes: Path | None = None) -> list[Path]:
    """Delete the block directories of runs whose process is gone; say which."""
    swept: list[Path] = []
    try:
        found: dict[Path, tuple[Path, Process, float] | None] = {}
        for note in sorted(_own_folder(notes).glob("*.json")):
            # Another program may sweep at the same time.
            with suppress(FileNotFoundError):
                found[note] = _read(note)
        # Executors of one host, one after the other or side by side, share a directory.
        in_use = {each[0] for each in found.values() if each is not None and each[1].is_alive}
        for note, each in found.items():
            if each is None:
                note.unlink(missing_ok=True)
                continue
            directory, owner, patience_s = each
            if owner.is_alive or _age_s(directory) < patience_s:
                continue
            if directory not in in_use and _is_ours(directory):
                shutil.rmtree(directory, ignore_errors=True)
                swept.append(directory)
            note.unlink(missing_ok=True)
    except OSError as error:
        log.warning("leftovers of earlier runs not swept", reason=str(error))
    if swept:
        log.info("leftovers of earlier runs swept", directories=len(swept))
    return swept


def _own_folder(notes: Path | None) -> Path:
    folder = notes or Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's own")
    return folder


def _age_s(directory: Path) -> float:
    """How long nothing was stored there; for ever when it is not there."""
    changed = -math.inf
    with suppress(OSError):
        for path in (directory, *directory.iterdir()):
            # The driver may delete what was there a moment ago.
            with suppress(FileNotFoundError):
                changed = max(changed, path.stat().st_mtime)
    return time.time() - changed


def _read(note: Path) -> tuple[Path, Process, float] | None:
    try:
        content: Any = json.loads(note.read_text())
        return Path(str(content["directory"])), Process(**content["owner"]), float(content["patience_s"])
    except (ValueError, TypeError, KeyError):
        return None


def _is_ours(directory: Path) -> bool:
    """Whether a directory is a run's own: by name, by mark, by owner, and none that only points to another."""
    try:
        return (
            directory.is_absolute()
            and directory.parent.name == PARENT
            and not directory.is_symlink()
            and directory.is_dir()
            and directory.stat().st_uid == os.getuid()
            and (directory / _MARK).read_text() == directory.name
        )
    except OSError:
        return False
