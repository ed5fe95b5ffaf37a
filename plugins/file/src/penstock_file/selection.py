"""``Selection``: which files the next batches read.

Owns what is known of every file that the listing still shows, and the queue of versions to read, oldest first. Never
lists by itself and knows no batch. ``note`` and ``look`` run on one thread at a time (the program's, then the listing
thread), ``take`` and ``put_back`` on the generator's loop; a lock is held while something changes, never while the
program's filter runs or files are looked at again.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.helpers import get_logger
from penstock_file.errors import FileReadError
from penstock_file.file_version import FileVersion

log = get_logger("file")

#: Ends of names under which programs write what they will rename when it is whole.
HALF_WRITTEN = ("._COPYING_", ".tmp", ".temp", ".part", ".partial", ".crdownload", ".filepart", ".swp", "~")
# Modified less than so long ago, a file may still be written to.
_RECENT_NS = 1_000_000_000
# A file that comes back within so long, as it was, is the one that was there.
_VANISHED_NS = 600_000_000_000

_MOVE = "write files elsewhere, or under a name that begins with a dot, and move them in when they are whole"
_FOLLOW = "for files that grow, use the receiver 'file'"


class Selection:
    """Versions in, versions out, each once.

    Args:
        now_ns: the wall clock.
        accept: the program's filter, given a file's name; ``None``: those that do not begin with a dot and do not say
            that they are half written.
        name: turns a path into a name.
    """

    def __init__(
        self, now_ns: Callable[[], int], accept: Callable[[str], bool] | None = None, name: Callable[[str], str] = str
    ) -> None:
        self._now_ns, self._accept, self._name = now_ns, accept, name
        # Of every path that needs no further look as long as its size and time stay: both of them.
        self._known: dict[str, tuple[int, int]] = {}
        # What was known and is not shown any more, and since when: a listing may miss a file, or a whole directory.
        self._vanished: dict[str, tuple[tuple[int, int], int]] = {}
        # Known and not read yet; the heap says in which order, and may hold versions that are no more.
        self._queued: dict[str, FileVersion] = {}
        self._heap: list[tuple[int, str, int]] = []
        # What the log has been told: paths, by reason.
        self._told: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def note(self, listing: Sequence[Any]) -> None:
        """Take what is there for known: it is not read."""
        with self._lock:
            self._known = {info.path: (info.size, info.mtime_ns or 0) for info in listing if info.size}

    def look(self, listing: Sequence[Any], again: Callable[[Sequence[str]], Sequence[Any]]) -> None:
        """Queue what is new in a listing, and forget what it does not show any more.

        Args:
            listing: everything that is there.
            again: looks at some files once more, a moment later.

        Raises:
            FileReadError: the program's filter failed; nothing has changed, the next look begins anew.
        """
        known, shown, new = self._known, 0, []
        for info in listing:
            path, now = info.path, (info.size, info.mtime_ns or 0)
            if self._is_back(path, now):
                known[path] = now
            before = known.get(path)
            if before is not None:
                shown += 1
            if before != now:
                new.append(FileVersion(path, *now))
        ripe, refused = self._judged(new, again)
        with self._lock:
            if shown < len(known) or self._told:
                self._forget({info.path for info in listing})
            for version in new:
                # What was queued is no more; what is there instead comes when it is ripe.
                if self._queued.pop(version.path, None) is not None:
                    del known[version.path]
            for version in refused:
                known[version.path] = (version.size, version.mtime_ns)
            for version in ripe:
                self._queue(version)

    def take(self, max_files: int, max_bytes: int) -> list[FileVersion]:
        """The oldest versions queued, at least one if there is any.

        Args:
            max_files: take no more; 0: no matter how many.
            max_bytes: take no more, unless the first alone is larger; 0: no matter how many.
        """
        taken: list[FileVersion] = []
        num_bytes = 0
        with self._lock:
            while self._heap and not (max_files and len(taken) >= max_files):
                mtime_ns, path, size = self._heap[0]
                version = self._queued.get(path)
                if version is None or (version.mtime_ns, version.size) != (mtime_ns, size):
                    heapq.heappop(self._heap)  # gone, or another version by now
                    continue
                if max_bytes and taken and num_bytes + size > max_bytes:
                    break
                heapq.heappop(self._heap)
                del self._queued[path]
                taken.append(version)
                num_bytes += size
        return taken

    def put_back(self, versions: Sequence[FileVersion]) -> None:
        """Queue again what was taken and could not be used, unless a newer version is queued."""
        with self._lock:
            for version in versions:
                if version.path not in self._queued:
                    self._queued[version.path] = version
                    heapq.heappush(self._heap, (version.mtime_ns, version.path, version.size))

    def position(self) -> dict[str, Any]:
        """What is known and what is queued, as JSON values; for a selection that goes on from here."""
        with self._lock:
            known, queued = dict(self._known), list(self._queued)
        return {"known": known, "queued": queued}

    def restore(self, position: Mapping[str, Any]) -> None:
        """Know and queue what another selection did."""
        with self._lock:
            self._known = {path: (size, mtime_ns) for path, (size, mtime_ns) in position["known"].items()}
            self._queued = {path: FileVersion(path, *self._known[path]) for path in position["queued"]}
            self._heap = [(version.mtime_ns, version.path, version.size) for version in self._queued.values()]
            heapq.heapify(self._heap)

    @property
    def queued(self) -> int:
        """How many versions wait to be read."""
        return len(self._queued)

    @property
    def known(self) -> int:
        """How many files need no further look."""
        return len(self._known)

    def _judged(
        self, new: list[FileVersion], again: Callable[[Sequence[str]], Sequence[Any]]
    ) -> tuple[list[FileVersion], list[FileVersion]]:
        """Of what is not known: what to read, and what never to."""
        ripe, refused, doubtful = [], [], []
        now_ns = self._now_ns()
        for version in new:
            if not version.size:
                continue  # nothing to read yet, maybe because it was made just now
            if not self._accepts(version.path):
                refused.append(version)
            elif version.mtime_ns <= now_ns - _RECENT_NS:
                ripe.append(version)
            elif version.path in self._known and version.mtime_ns <= now_ns:
                pass  # its end came and went before: this time it must be quiet for longer
            else:
                doubtful.append(version)
        if doubtful:
            seen = {
                info.path: (info.size, info.mtime_ns or 0) for info in again([version.path for version in doubtful])
            }
            for version in doubtful:
                if seen.get(version.path) == (version.size, version.mtime_ns):
                    ripe.append(version)
                elif version.path in seen:
                    self._tell("is being written to: left for a later batch", version.path, _MOVE)
        return ripe, refused

    def _accepts(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if self._accept is not None:
            try:
                return bool(self._accept(self._name(path)))
            except Exception as error:
                raise FileReadError(
                    f"the filter failed on {self._name(path)}: {type(error).__name__}: {error}"
                ) from error
        if name.startswith("."):
            return False
        for ending in HALF_WRITTEN:
            if name.endswith(ending):
                self._tell(
                    f"has the name of a half-written file ({ending}): skipped", path, "rename it when it is whole"
                )
                return False
        return True

    def _queue(self, version: FileVersion) -> None:
        if version.path in self._known:
            log.warning(
                "file changed since it was read, or since the stream was made: read again from its beginning",
                file=self._name(version.path),
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
        return version == now and self._now_ns() - gone_ns <= _VANISHED_NS

    def _forget(self, shown: set[str]) -> None:
        now_ns = self._now_ns()
        for path, (_version, gone_ns) in list(self._vanished.items()):
            if now_ns - gone_ns > _VANISHED_NS:
                del self._vanished[path]
        for path in self._known.keys() - shown:
            version = self._known.pop(path)
            if self._queued.pop(path, None) is None:
                self._vanished[path] = (version, now_ns)
            else:
                log.warning("file is gone before a batch has read it", file=self._name(path))
        for reason in list(self._told):
            self._told[reason] &= shown
            if not self._told[reason]:
                del self._told[reason]

    def _tell(self, what: str, path: str, advice: str) -> None:
        """Warn, once as long as the file is there."""
        told = self._told.setdefault(what, set())
        if path not in told:
            told.add(path)
            log.warning(f"file {what}", file=self._name(path), advice=advice)
