"""``FileSelector``: decides which files the next batches read, each version once, oldest first.

``note`` and ``look`` run on one thread at a time (the program's, then the lister's), ``take`` and ``put_back`` on the
generator's. The lock is never held during a call of the user's filter or of the file system.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.spi import get_logger, text_of
from penstock_file.errors import FileReadError
from penstock_file.file_version import FileVersion

log = get_logger("file")

#: File name endings of incomplete files, which their writers rename in the end.
HALF_WRITTEN = ("._COPYING_", ".tmp", ".temp", ".part", ".partial", ".crdownload", ".filepart", ".swp", "~")
# A file modified less than this long ago may still be written to.
_RECENT_NS = 1_000_000_000
# A vanished file that reappears unchanged within this time counts as the same file.
_VANISHED_NS = 600_000_000_000
# A file that remains unfinished is logged again after this many seconds.
_LOG_AGAIN_S = 3600

_MOVE = "write files elsewhere, or under a name that begins with a dot, and move them in when they are complete"
_FOLLOW = "for files that grow, use the receiver 'file'"


class FileSelector:
    """Selects the file versions that the next batches read, each version once.

    Args:
        now_ns: the wall clock, as modification times.
        accept: the user's filter, called with a file's name; ``None``: skip names that begin with a dot or end like a
            half-written file's.
        name: turns a path into the name for users.
        monotonic_ns: a clock that nobody sets.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        accept: Callable[[str], bool] | None = None,
        name: Callable[[str], str] = str,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._now_ns = now_ns
        self._monotonic_ns = monotonic_ns
        self._accept = accept
        self._name = name
        # Size and mtime of every handled path. Until they change, the path needs no further check.
        self._known: dict[str, tuple[int, int]] = {}
        # Known files that are missing in listings, and since when. A listing may miss a file or a whole directory.
        self._vanished: dict[str, tuple[tuple[int, int], int]] = {}
        # Known files that are not read yet. The heap orders them and may contain outdated versions.
        self._queued: dict[str, FileVersion] = {}
        self._heap: list[tuple[int, str, int]] = []
        self._lock = threading.Lock()

    def note(self, listing: Sequence[Any]) -> None:
        """Mark existing files as known, so that they are not read."""
        with self._lock:
            self._known = {info.path: (info.size, info.mtime_ns or 0) for info in listing if info.size}

    def look(self, listing: Sequence[Any], again: Callable[[Sequence[str]], Sequence[Any]]) -> None:
        """Queue new versions in a listing, and drop files that are missing in it.

        Args:
            listing: all files.
            again: lists some files again, a moment later.

        Raises:
            FileReadError: the user's filter failed; nothing has changed.
        """
        versions, num_listed, new = self._known, 0, []
        for info in listing:
            path, now = info.path, (info.size, info.mtime_ns or 0)
            if self._is_back(path, now):
                versions[path] = now
            before = versions.get(path)
            if before is not None:
                num_listed += 1
            if before != now:
                new.append(FileVersion(path, *now))
        stable, refused = self._judged(new, again)
        with self._lock:
            if num_listed < len(versions):
                self._forget({info.path for info in listing})
            for version in new:
                # The queued version is outdated; the new one is queued when it is stable.
                if self._queued.pop(version.path, None) is not None:
                    del versions[version.path]
            for version in refused:
                versions[version.path] = (version.size, version.mtime_ns)
            for version in stable:
                self._queue(version)

    def take(self, max_files: int, max_bytes: int, until_ns: float = math.inf) -> list[FileVersion]:
        """Take the oldest queued versions, at least one if there is any.

        Args:
            max_files: maximum number of files; 0: no limit.
            max_bytes: maximum bytes, which only a single larger file may exceed; 0: no limit.
            until_ns: the newest modification time.
        """
        taken: list[FileVersion] = []
        num_bytes = 0
        with self._lock:
            while self._heap and not (max_files and len(taken) >= max_files):
                mtime_ns, path, size = self._heap[0]
                version = self._queued.get(path)
                if version is None or (version.mtime_ns, version.size) != (mtime_ns, size):
                    heapq.heappop(self._heap)  # gone, or outdated
                    continue
                if mtime_ns > until_ns or (max_bytes and taken and num_bytes + size > max_bytes):
                    break
                heapq.heappop(self._heap)
                del self._queued[path]
                taken.append(version)
                num_bytes += size
        return taken

    def put_back(self, versions: Sequence[FileVersion]) -> None:
        """Queue taken versions again, unless a newer version is queued."""
        with self._lock:
            for version in versions:
                if version.path not in self._queued:
                    self._queued[version.path] = version
                    heapq.heappush(self._heap, (version.mtime_ns, version.path, version.size))

    def position(self) -> dict[str, Any]:
        """The known and queued files as JSON values, for ``restore``."""
        with self._lock:
            versions, queued = dict(self._known), list(self._queued)
        return {"known": versions, "queued": queued}

    def restore(self, position: Mapping[str, Any]) -> None:
        """Continue from another selector's position."""
        with self._lock:
            self._known = {path: (size, mtime_ns) for path, (size, mtime_ns) in position["known"].items()}
            self._queued = {path: FileVersion(path, *self._known[path]) for path in position["queued"]}
            self._heap = [(version.mtime_ns, version.path, version.size) for version in self._queued.values()]
            heapq.heapify(self._heap)

    def _judged(
        self, new: list[FileVersion], again: Callable[[Sequence[str]], Sequence[Any]]
    ) -> tuple[list[FileVersion], list[FileVersion]]:
        """Choose from the new versions those to read and those to ignore for good."""
        stable, refused, doubtful = [], [], []
        now_ns = self._now_ns()
        for version in new:
            if not version.size:
                continue  # nothing to read yet: the file may have just been created
            if not self._accepts(version.path):
                refused.append(version)
            elif version.mtime_ns <= now_ns - _RECENT_NS:
                stable.append(version)
            elif version.path in self._known and version.mtime_ns <= now_ns:
                pass  # it has changed after it seemed complete: it must be unchanged for longer now
            else:
                doubtful.append(version)
        if doubtful:
            seen = {
                info.path: (info.size, info.mtime_ns or 0) for info in again([version.path for version in doubtful])
            }
            for version in doubtful:
                if seen.get(version.path) == (version.size, version.mtime_ns):
                    stable.append(version)
                elif version.path in seen:
                    log.warning(
                        "unfinished file left for later batch",
                        path=self._name(version.path),
                        advice=_MOVE,
                        throttle_s=_LOG_AGAIN_S,
                    )
        return stable, refused

    def _accepts(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if self._accept is not None:
            try:
                return bool(self._accept(self._name(path)))
            except Exception as error:
                raise FileReadError(
                    f"the filter of the file stream failed on {self._name(path)}: {type(error).__name__}: "
                    f"{text_of(error)}"
                ) from error
        if name.startswith("."):
            return False
        for ending in HALF_WRITTEN:
            if name.endswith(ending):
                log.warning(
                    "half-written file skipped",
                    path=self._name(path),
                    ending=ending,
                    advice="rename it when it is complete",
                    throttle_s=_LOG_AGAIN_S,
                )
                return False
        return True

    def _queue(self, version: FileVersion) -> None:
        if version.path in self._known:
            log.warning(
                "file changed, read again from its beginning",
                path=self._name(version.path),
                size=version.size,
                advice=f"{_MOVE}; {_FOLLOW}",
            )
        self._known[version.path] = (version.size, version.mtime_ns)
        self._queued[version.path] = version
        heapq.heappush(self._heap, (version.mtime_ns, version.path, version.size))

    def _is_back(self, path: str, now: tuple[int, int]) -> bool:
        if path not in self._vanished:
            return False
        version, gone_ns = self._vanished.pop(path)
        return version == now and self._monotonic_ns() - gone_ns <= _VANISHED_NS

    def _forget(self, listed: set[str]) -> None:
        now_ns = self._monotonic_ns()
        for path, (_version, gone_ns) in list(self._vanished.items()):
            if now_ns - gone_ns > _VANISHED_NS:
                del self._vanished[path]
        for path in self._known.keys() - listed:
            version = self._known.pop(path)
            if self._queued.pop(path, None) is None:
                self._vanished[path] = (version, now_ns)
            else:
                log.warning("file vanished before it was read", path=self._name(path))
