"""``StateStore``: the states of one partition's keys, in a few immutable files.

A version of the states is a list of segments, SQLite files of states and removals. Every batch adds a segment with its
changes, and merges segments of similar size. The cost per change grows with the logarithm of the number of states.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import os
import pickle
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from pyspark.core.rdd import portable_hash

from penstock import PenstockError
from penstock.spi import Directory, atomic_write, executor_directory, is_remote, make_private, own_directory, shown

# A segment is merged with the previous one unless the previous one is more than this many times larger.
_RATIO = 3
# Keys per query; SQLite accepts 32,766 parameters.
_KEYS_PER_QUERY = 1_000
# Folder of the copies of remote files, by store and partition.
_COPIES = "penstock-state"
# Copies are deleted after this time without a batch: the partition has moved, or its program has ended.
_UNUSED_S = 600.0
_COPY_BYTES = 1 << 20

_Row = tuple[int, bytes, bytes | None, int]


class StateGoneError(PenstockError):
    """A file of the state store of ``mapWithState`` cannot be read."""


class StateTooLargeError(PenstockError):
    """The state of one key exceeds what the state store of ``mapWithState`` can hold."""


@frozen
class Segment:
    """One file of a store, with ``num_rows`` states and removals."""

    name: str
    num_rows: int


@frozen
class StateVersion:
    """The states of a partition after one batch."""

    time_ms: int
    # Oldest first; a newer one overrides the older.
    segments: tuple[Segment, ...] = ()
    # Older states have timed out.
    timed_out_ms: int | None = None
    # Segments that were merged into others, with the time of the last version that needs them.
    retired: tuple[tuple[int, str], ...] = ()


@frozen
class StoredState:
    """The stored state of a key."""

    key: bytes  # pickled when first stored, because equal keys may have different pickles
    state: bytes | None  # None if it was removed
    updated_ms: int


@frozen
class StateStore:
    """The files of one partition in a local directory, or private copies of the files in a remote one."""

    directory: Path
    remote: Directory | None = None

    @staticmethod
    def of(home: str, partition: int) -> StateStore:
        """The store of a partition in the directory of all stores, a path or a URI.

        Raises ``PermissionError`` if another user created the directory of the copies.
        """
        if not is_remote(home):
            return StateStore(Path(home) / str(partition))
        copies = own_directory(executor_directory() / _COPIES, "SPARK_LOCAL_DIRS")
        name = f"{hashlib.sha256(home.encode()).hexdigest()[:16]}-{partition}"
        return StateStore(copies / name, Directory.of(home).child(str(partition)))

    def find(self, version: StateVersion, keys: Iterable[Any]) -> dict[Any, StoredState]:
        """Look up keys; the result omits keys that were never stored."""
        states: dict[Any, StoredState] = {}
        wanted = {key: portable_hash(key) for key in keys}
        for segment in reversed(version.segments):
            if not wanted:
                break
            with closing(self._open(segment.name)) as database:
                for key, row in _matching(database, wanted):
                    states[key] = StoredState(row[1], row[2], row[3])
            for key in states.keys() & wanted.keys():
                del wanted[key]
        return states

    def snapshot(self, version: StateVersion) -> Iterator[tuple[Any, Any]]:
        """All keys and states, in no particular order; holds one row per segment in memory."""
        connections = [self._open(segment.name) for segment in version.segments]
        try:
            # The rows of a key follow each other, the newest segment's first.
            query = "SELECT hash, key, ?, state FROM state ORDER BY hash, key"
            rows = heapq.merge(*(database.execute(query, (-age,)) for age, database in enumerate(connections)))
            for _, same in itertools.groupby(rows, key=lambda row: row[:2]):
                _, key, _, state = next(same)
                if state is not None:
                    yield pickle.loads(key), pickle.loads(state)
        finally:
            for database in connections:
                database.close()

    def older_than(self, version: StateVersion, before_ms: int) -> Iterator[Any]:
        """Yield the keys updated from ``version.timed_out_ms`` up to, but excluding, ``before_ms``.

        A key may have a newer update in a later segment; the caller must check.
        """
        since_ms = -1 if version.timed_out_ms is None else version.timed_out_ms
        for segment in version.segments:
            with closing(self._open(segment.name)) as database:
                rows = database.execute(
                    "SELECT key FROM state WHERE updated >= ? AND updated < ? AND state IS NOT NULL",
                    (since_ms, before_ms),
                )
                for (key,) in rows:
                    yield pickle.loads(key)

    def commit(self, version: StateVersion, time_ms: int, changes: Iterable[tuple[Any, StoredState]]) -> StateVersion:
        """Add a batch's changes to the version before the batch, and return the version after it.

        File names contain a hash of the contents. A recomputed batch rewrites the same files if its records are the
        same, and new files otherwise.
        """
        rows = sorted((portable_hash(key), change.key, change.state, change.updated_ms) for key, change in changes)
        segments = [*version.segments]
        if rows:
            segments.append(Segment(f"{time_ms}-{_digest(rows)}.db", len(rows)))
            self._write(segments[-1].name, lambda database: _insert(database, rows))
        merged = _to_merge(segments)
        retired = list(version.retired)
        if merged > 1:
            # A removal is needed only while an older segment contains the removed state.
            whole = merged == len(segments)
            old = segments[-merged:]
            name = f"{time_ms}-{merged}-{_digest([whole, *(segment.name for segment in old)])}.db"
            num_rows = self._write(name, lambda database: self._merge(database, old, whole=whole))
            retired += [(version.time_ms, segment.name) for segment in old]
            segments[-merged:] = [Segment(name, num_rows)]
        return evolve(version, time_ms=time_ms, segments=tuple(segments), retired=tuple(retired))

    def retire(self, version: StateVersion, before_ms: int) -> StateVersion:
        """Delete the files that no version since ``before_ms`` needs."""
        for last_ms, name in version.retired:
            if last_ms < before_ms:
                (self.directory / name).unlink(missing_ok=True)
                if self.remote is not None:
                    self.remote.delete(name)
        if self.remote is not None:
            self._delete_unused_copies()
        return evolve(version, retired=tuple(old for old in version.retired if old[0] >= before_ms))

    def _delete_unused_copies(self) -> None:
        """Delete the copies of partitions that other hosts compute now, and of programs that have ended."""
        make_private(self.directory)
        os.utime(self.directory)
        for copies in self.directory.parent.iterdir():
            # Another task may be deleting it.
            with contextlib.suppress(FileNotFoundError):
                if time.time() - copies.stat().st_mtime > _UNUSED_S:
                    shutil.rmtree(copies, ignore_errors=True)

    def _open(self, name: str) -> sqlite3.Connection:
        try:
            return sqlite3.connect(self._uri(name), uri=True)
        except (OSError, sqlite3.OperationalError) as error:
            location = self.directory / name if self.remote is None else self.remote.location(name)
            raise StateGoneError(
                f"state file {location} cannot be read: {error}. Restore the file, or start fresh in another "
                "checkpoint directory"
            ) from error

    def _uri(self, name: str) -> str:
        path = self.directory / name
        if self.remote is not None and not path.exists():
            make_private(self.directory)
            with atomic_write(path) as unfinished:
                self.remote.copy_to(name, unfinished)
        return f"{path.absolute().as_uri()}?mode=ro&immutable=1"

    def _write(self, name: str, fill: Callable[[sqlite3.Connection], None]) -> int:
        """Write a segment atomically; return its number of rows."""
        make_private(self.directory)
        path = self.directory / name
        # A checkpoint that is on the disk may name the file that a repeated task replaces.
        with atomic_write(path, sync=path.exists()) as unfinished:
            with closing(sqlite3.connect(unfinished, isolation_level=None, uri=True)) as database:
                database.executescript(_SCHEMA)
                fill(database)
                database.execute("CREATE INDEX by_time ON state (updated)")
                (num_rows,) = database.execute("SELECT count(*) FROM state").fetchone()
            if self.remote is not None:
                with unfinished.open("rb") as written, self.remote.create(name) as copy:
                    shutil.copyfileobj(written, copy, _COPY_BYTES)
        return int(num_rows)

    def _merge(self, database: sqlite3.Connection, segments: list[Segment], *, whole: bool) -> None:
        for segment in segments:
            database.execute("ATTACH ? AS one", (self._uri(segment.name),))
            database.execute("INSERT OR REPLACE INTO main.state SELECT * FROM one.state ORDER BY hash, key")
            database.execute("DETACH one")
        if whole:
            database.execute("DELETE FROM state WHERE state IS NULL")


_SCHEMA = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE state (hash INTEGER, key BLOB, state BLOB, updated INTEGER, PRIMARY KEY (hash, key)) WITHOUT ROWID;
"""


def _insert(database: sqlite3.Connection, rows: list[_Row]) -> None:
    database.execute("BEGIN")
    try:
        database.executemany("INSERT INTO state VALUES (?, ?, ?, ?)", rows)
    # SQLite raises the second one beyond 2 GB.
    except (sqlite3.DataError, OverflowError) as error:
        _hash, key, state, _updated = max(rows, key=lambda row: len(row[2] or b""))
        raise StateTooLargeError(
            f"the state of key {shown(pickle.loads(key))} has {len(state or b''):,} bytes, and the state store of "
            f"mapWithState takes {database.getlimit(sqlite3.SQLITE_LIMIT_LENGTH):,} at most: distribute it over "
            "several keys"
        ) from error
    database.execute("COMMIT")


def _digest(parts: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode())
    return digest.hexdigest()[:16]


def _to_merge(segments: list[Segment]) -> int:
    """The number of newest segments to merge into one."""
    count, num_rows = 1, segments[-1].num_rows if segments else 0
    while count < len(segments) and segments[-count - 1].num_rows <= _RATIO * num_rows:
        count += 1
        num_rows += segments[-count].num_rows
    return count


def _matching(database: sqlite3.Connection, wanted: dict[Any, int]) -> Iterator[tuple[Any, _Row]]:
    pairs = iter(wanted.items())
    while part := list(itertools.islice(pairs, _KEYS_PER_QUERY)):
        by_hash: dict[int, list[Any]] = {}
        for key, number in part:
            by_hash.setdefault(number, []).append(key)
        marks = ",".join("?" * len(by_hash))
        query = f"SELECT hash, key, state, updated FROM state WHERE hash IN ({marks})"
        for row in database.execute(query, tuple(by_hash)):
            stored = pickle.loads(row[1])
            for key in by_hash[row[0]]:
                if key == stored:
                    yield key, row
