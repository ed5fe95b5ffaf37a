"""``Watch``: which files are followed, under which names, and in which order they are read.

Owns the followed files and what is found in the file system: new ones, renamed ones, ones whose path leads elsewhere.
Never reads lines. Runs on the receiver's thread.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from penstock.helpers import text_of
from penstock_file.followed_file import FollowedFile
from penstock_file.positions import Position

# How long a file is still read after its path was found to lead elsewhere: whoever writes may learn of it later.
_LEAVE_S = 5.0
# Files that are open at a time, besides those with something to read or to wait for.
_OPEN = 200
# Files that went away, of which it is known how far they were read.
_REMEMBERED = 100

_Identity = tuple[int, int]


class Watch:
    """The files that a path names: one, those in a directory, or those that a pattern matches.

    Args:
        path: names them.
        recorded: how far files were read before; ``None``: never any.
        at_end: the files that are there at first, and are not recorded, are read from their end on.
        max_line_bytes: see LineRules.
        ignored: paths of files that are not followed in a directory, the receiver's own.
        tell: reports what people should know.
        monotonic_s: a clock.
    """

    def __init__(
        self,
        path: str,
        recorded: Iterable[Position] | None,
        *,
        at_end: bool,
        max_line_bytes: int,
        ignored: Sequence[str] = (),
        tell: Callable[[str], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._path, self._max_line_bytes, self._tell, self._monotonic_s = path, max_line_bytes, tell, monotonic_s
        self._ignored = frozenset(ignored)
        self._at_end = at_end and recorded is None
        # By inode: the number of a device may be another after the machine was started anew.
        self._recorded = {position.inode: position for position in recorded or ()}
        self._files: dict[_Identity, FollowedFile] = {}
        self._by_path: dict[str, FollowedFile] = {}
        self._first = True
        #: There was more to read than ``readable`` gave.
        self.is_more = False
        # What was told, so that it is not told at each look.
        self._waiting = False
        self._refused: set[str] = set()

    @property
    def positions(self) -> list[Position]:
        """How far the files were read."""
        return [file.position for file in self._files.values()]

    def __len__(self) -> int:
        return len(self._files)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def scan(self) -> None:
        """Find out what is there now."""
        found: dict[_Identity, str] = {}
        for path in self._paths():
            try:
                status = Path(path).stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                self._refuse(path, error)
                continue
            identity = (status.st_dev, status.st_ino)
            if not stat.S_ISREG(status.st_mode) or identity in found:
                continue
            found[identity] = path
            file = self._files.get(identity)
            if file is None:
                file = self._files[identity] = self._begin(path, identity)
            file.path, file.left_s = path, None
            file.see(status)
        self._arrange(found)
        if self._first:
            self._first = False
            self._find_recorded()
            if self._at_end:
                self._go_to_ends()
        self._say_waiting()

    def readable(self) -> Iterator[FollowedFile]:
        """Files with something to read, open; those read longest ago first, each behind its predecessor.

        No more than may be open at a time; ``is_more`` says whether there are others.
        """
        given, self.is_more = 0, False
        files = list(self._files.values())
        for file in files:
            if file.left_s is not None and file.descriptor is not None:
                file.see(os.fstat(file.descriptor))
        for file in files:
            before = file.predecessor
            if before is not None and before.behind and (before.device, before.inode) in self._files:
                continue
            file.predecessor = None
            if file.behind and self._opened(file):
                if given == _OPEN:
                    self.is_more = True
                    return
                given += 1
                yield file

    def leaving(self) -> list[FollowedFile]:
        """The files that were read to their ends, are in their places no more, and have been quiet for long enough."""
        now_s = self._monotonic_s()
        return [
            file
            for file in self._files.values()
            if file.left_s is not None and not file.behind and now_s - file.left_s >= _LEAVE_S
        ]

    def was_read(self, file: FollowedFile) -> None:
        """Others come first the next time."""
        identity = (file.device, file.inode)
        if self._files.pop(identity, None) is not None:
            self._files[identity] = file
        if file.left_s is not None:
            file.left_s = self._monotonic_s()

    def close_idle(self) -> None:
        """Close files in their places that were read to their ends, those read longest ago, if too many are open."""
        idle = [each for each in self._files.values() if each.descriptor is not None and each.left_s is None]
        for each in idle[: max(len(idle) - _OPEN, 0)]:
            if not each.behind:
                each.close()

    def drop(self, file: FollowedFile) -> None:
        """Follow a file no more. It is remembered for a while: it may come back to a place."""
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
                self._tell(f"{path} does not hold any more what was read of it: it is read from its beginning")
        return FollowedFile(Position(path, inode), device)

    def _arrange(self, found: dict[_Identity, str]) -> None:
        """See which files have left their places, and who has taken them."""
        now_s = self._monotonic_s()
        for identity, file in list(self._files.items()):
            if identity in found or file.left_s is not None:
                continue
            file.left_s = now_s
            if file.descriptor is None and file.behind and not _find(file):
                self._tell(f"{file.path} was removed before it was read on from byte {file.offset}")
                del self._files[identity]
            elif file.descriptor is None:
                del self._files[identity]  # it was read to its end
        by_path = {path: self._files[identity] for identity, path in found.items()}
        for path, file in by_path.items():
            before = self._by_path.get(path)
            if before is not None and before is not file and file.offset == 0:
                file.predecessor = before
        # A look may fall between the renaming of a file and the making of the one that takes its place.
        kept = {id(file) for file in self._files.values()}
        left = {path: file for path, file in self._by_path.items() if id(file) in kept}
        self._by_path = left | by_path

    def _find_recorded(self) -> None:
        """Files that were renamed while nobody looked: what was not read of them comes first."""
        for position in self._recorded.values():
            file = FollowedFile(position, -1)
            if not _find(file):
                self._tell(
                    f"{position.path} was read up to byte {position.offset} and is there no more: "
                    "what was added to it since is not read"
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
            return False  # the next look finds out
        except OSError as error:
            self._refuse(file.path, error)
            return False
        self._refused.discard(file.path)
        return True

    def _refuse(self, path: str, error: OSError) -> None:
        if path not in self._refused:
            self._refused.add(path)
            self._tell(f"{path} cannot be read: {text_of(error)}; trying again at each look")

    def _say_waiting(self) -> None:
        if self._files:
            self._waiting = False
        elif not self._waiting and not self._refused:
            self._waiting = True
            self._tell(f"no file at {self._path}: waiting for one")


def _find(file: FollowedFile) -> bool:
    """Open a file that is not at its path any more, by its inode, if it is in the same directory under another name."""
    folder = Path(file.path).parent
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.inode() == file.inode]
    except OSError:
        return False
    known = file.position
    for name in names:
        try:
            file.path = name
            file.device = Path(name).stat().st_dev
            file.open()
        except OSError:
            continue
        assert file.descriptor is not None
        if known.head.fits(file.descriptor) and os.fstat(file.descriptor).st_size >= known.offset:
            return True
        file.close()
    file.path = known.path
    return False
