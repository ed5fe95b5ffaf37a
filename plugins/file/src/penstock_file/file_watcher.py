"""``FileWatcher``: finds the files to follow, through renames and replacements, and orders their reading.

Runs on the receiver's thread.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from penstock.spi import text_of
from penstock_file.followed_file import FollowedFile
from penstock_file.positions import Position

# Time for which a file is still read after its path leads to another file: the writer may notice the change late.
_LEAVE_S = 5.0
# Maximum open files, not counting files with unread bytes and files that left their paths.
_OPEN = 200
# Maximum number of vanished files whose offsets are remembered.
_REMEMBERED = 100

_Identity = tuple[int, int]


class FileWatcher:
    """The files that a path names: one, those in a directory, or those that a pattern matches.

    Args:
        path: a file, directory or pattern.
        recorded: offsets of an earlier run; ``None`` when there was none.
        at_end: whether initially existing files without a recorded offset are read from their end on.
        max_line_bytes: maximum line length.
        ignored: files that are not followed, such as the receiver's own offset file.
        report: called with messages for the user.
        monotonic_s: clock, seconds.
    """

    def __init__(
        self,
        path: str,
        recorded: Iterable[Position] | None,
        *,
        at_end: bool,
        max_line_bytes: int,
        ignored: Sequence[str] = (),
        report: Callable[[str], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._path = path
        self._max_line_bytes = max_line_bytes
        self._report = report
        self._monotonic_s = monotonic_s
        self._ignored = frozenset(ignored)
        self._at_end = at_end and recorded is None
        # By inode: the device number may change when the machine reboots.
        self._recorded = {position.inode: position for position in recorded or ()}
        self._files: dict[_Identity, FollowedFile] = {}
        self._by_path: dict[str, FollowedFile] = {}
        self._first = True
        #: Whether there is more to read than ``readable`` returned.
        self.is_more = False
        # Conditions that have been reported.
        self._waiting = False
        self._refused: set[str] = set()

    @property
    def positions(self) -> list[Position]:
        """The offsets of all files."""
        return [file.position for file in self._files.values()]

    def __len__(self) -> int:
        return len(self._files)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def scan(self) -> None:
        """Find new, renamed and vanished files."""
        paths: dict[_Identity, str] = {}
        for path in self._paths():
            try:
                status = Path(path).stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                self._refuse(path, error)
                continue
            identity = (status.st_dev, status.st_ino)
            if not stat.S_ISREG(status.st_mode) or identity in paths:
                continue
            paths[identity] = path
            file = self._files.get(identity)
            if file is None:
                file = self._files[identity] = self._begin(path, identity)
            file.path, file.left_s = path, None
            file.see(status)
        self._arrange(paths)
        if self._first:
            self._first = False
            self._find_recorded()
            if self._at_end:
                self._go_to_ends()
        self._report_waiting()

    def readable(self) -> Iterator[FollowedFile]:
        """Yield open files with new bytes, the least recently read first, each after its predecessor.

        Yields at most as many files as may be open at a time; ``is_more`` says whether there are others.
        """
        num_yielded, self.is_more = 0, False
        files = list(self._files.values())
        for file in files:
            if file.left_s is not None and file.descriptor is not None:
                file.see(os.fstat(file.descriptor))
        for file in files:
            before = file.predecessor
            if before is not None and before.has_new_bytes and (before.device, before.inode) in self._files:
                continue
            file.predecessor = None
            if file.has_new_bytes and self._opened(file):
                if num_yielded == _OPEN:
                    self.is_more = True
                    return
                num_yielded += 1
                yield file

    def leaving(self) -> list[FollowedFile]:
        """Fully read files that have left their paths and have not grown for a while."""
        now_s = self._monotonic_s()
        return [
            file
            for file in self._files.values()
            if file.left_s is not None and not file.has_new_bytes and now_s - file.left_s >= _LEAVE_S
        ]

    def was_read(self, file: FollowedFile) -> None:
        """Move a file to the end of the reading order."""
        identity = (file.device, file.inode)
        if self._files.pop(identity, None) is not None:
            self._files[identity] = file
        if file.left_s is not None:
            file.left_s = self._monotonic_s()

    def close_idle(self) -> None:
        """If too many files are open, close fully read ones, the least recently read first."""
        idle = [file for file in self._files.values() if file.descriptor is not None and file.left_s is None]
        for file in idle[: max(len(idle) - _OPEN, 0)]:
            if not file.has_new_bytes:
                file.close()

    def drop(self, file: FollowedFile) -> None:
        """Stop following a file, and remember its offset: it may reappear under another path."""
        if file.descriptor is not None and os.fstat(file.descriptor).st_nlink:
            self._recorded[file.inode] = file.position
            while len(self._recorded) > _REMEMBERED:
                del self._recorded[next(iter(self._recorded))]
        file.close()
        self._files.pop((file.device, file.inode), None)

    def _paths(self) -> list[str]:
        path = self._path
        try:
            if Path(path).is_dir():
                with os.scandir(path) as entries:
                    paths = (entry.path for entry in entries if not entry.name.startswith("."))
                    return sorted(path for path in paths if path not in self._ignored)
            if glob.has_magic(path) and not Path(path).exists():
                return sorted(glob.glob(path))  # noqa: PTH207  # a pattern with a root of its own
        except OSError as error:
            self._refuse(path, error)
            return []
        return [path]

    def _begin(self, path: str, identity: _Identity) -> FollowedFile:
        device, inode = identity
        recorded = self._recorded.pop(inode, None)
        if recorded is not None:
            file = FollowedFile(recorded, device)
            file.path = path
            try:
                file.open()
                if file.descriptor is not None and recorded.head.fits(file.descriptor):
                    return file
            except OSError as error:
                self._refuse(path, error)
                return file
            file.close()
            if recorded.path == path:
                self._report(f"{path} was replaced or rewritten: reading from the beginning")
        return FollowedFile(Position(path, inode), device)

    def _arrange(self, paths: dict[_Identity, str]) -> None:
        """Find files that left their paths, and their successors at these paths."""
        now_s = self._monotonic_s()
        for identity, file in list(self._files.items()):
            if identity in paths or file.left_s is not None:
                continue
            file.left_s = now_s
            if file.descriptor is None and file.has_new_bytes and not _find(file):
                self._report(f"{file.path} was removed before its bytes from offset {file.offset} on were read")
                del self._files[identity]
            elif file.descriptor is None:
                del self._files[identity]  # it was read to its end
        by_path = {path: self._files[identity] for identity, path in paths.items()}
        for path, file in by_path.items():
            before = self._by_path.get(path)
            if before is not None and before is not file and file.offset == 0:
                file.predecessor = before
        # Remember files without a successor: a scan may run between a file's renaming and the creation of the next one.
        kept = {id(file) for file in self._files.values()}
        left = {path: file for path, file in self._by_path.items() if id(file) in kept}
        self._by_path = left | by_path

    def _find_recorded(self) -> None:
        """Find files that were renamed since the earlier run; their remaining bytes are read first."""
        for position in self._recorded.values():
            file = FollowedFile(position, -1)
            if not _find(file):
                self._report(
                    f"{position.path} was read up to byte {position.offset} and is gone: "
                    "bytes appended since then are lost"
                )
                continue
            assert file.descriptor is not None
            file.left_s = self._monotonic_s()
            file.see(os.fstat(file.descriptor))
            self._files[(file.device, file.inode)] = file
            follower = self._by_path.get(position.path)
            if follower is not None:
                follower.predecessor = file
        self._recorded.clear()

    def _go_to_ends(self) -> None:
        for file in list(self._files.values()):
            if self._opened(file):
                file.begin_at_end(self._max_line_bytes)
                self.was_read(file)

    def _opened(self, file: FollowedFile) -> bool:
        try:
            file.open()
        except FileNotFoundError:
            return False  # the next scan notices
        except OSError as error:
            self._refuse(file.path, error)
            return False
        self._refused.discard(file.path)
        return True

    def _refuse(self, path: str, error: OSError) -> None:
        if path not in self._refused:
            self._refused.add(path)
            self._report(f"{path} cannot be read: {text_of(error)}; retrying at each scan")

    def _report_waiting(self) -> None:
        if any(file.left_s is None for file in self._files.values()):
            self._waiting = False
        # A rotated file may get a successor soon. If its folder is gone as well, something is wrong.
        elif not self._waiting and not self._refused and not any(map(_has_folder, self._files.values())):
            self._waiting = True
            self._report(f"no file at {self._path}: waiting for one")


def _has_folder(file: FollowedFile) -> bool:
    return Path(file.path).parent.exists()


def _find(file: FollowedFile) -> bool:
    """Find a renamed file in its directory by its inode, and open it; return whether that succeeded."""
    folder = Path(file.path).parent
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.inode() == file.inode]
    except OSError:
        return False
    position = file.position
    for name in names:
        try:
            file.path = name
            file.device = Path(name).stat().st_dev
            file.open()
        except OSError:
            continue
        assert file.descriptor is not None
        if position.head.fits(file.descriptor) and os.fstat(file.descriptor).st_size >= position.offset:
            return True
        file.close()
    file.path = position.path
    return False
