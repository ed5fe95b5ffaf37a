"""``FileReceiver``: stores the lines that are appended to files.

Its thread reads new lines, stores them, then saves the offsets. While ``store_arrow`` blocks, it reads nothing.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Literal

import pyarrow as pa
from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, le, min_len

from penstock import ThreadReceiver
from penstock.spi import ErrorCounts, LineRules, text_of
from penstock_file import positions
from penstock_file.file_watcher import FileWatcher
from penstock_file.followed_file import FollowedFile
from penstock_file.line_chunk import LineChunk
from penstock_file.positions import Position

# Bytes that are stored at once, without reading more: enough for a block.
_MANY_BYTES = 16 << 20


@frozen(kw_only=True)
class FileReceiverOptions:
    """Options of the receiver ``file``; the ``help`` of each field describes it."""

    path: str = field(
        validator=min_len(1), metadata={"help": "a file, a directory (all files in it), or a pattern (/logs/*.log)"}
    )
    start: Literal["beginning", "end"] = field(
        default="beginning",
        validator=in_(("beginning", "end")),
        metadata={
            "help": "beginning or end: where to start in files that exist at first; others are read from the beginning"
        },
    )
    poll_interval: float = field(
        default=0.2,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "seconds between two scans if nothing is new"},
    )
    max_line_bytes: int = field(
        default=1 << 20,
        validator=and_(ge(1), le(1 << 30)),
        metadata={"help": "a longer line is dropped and counted; it is never held in memory"},
    )
    offset_file: str = field(
        default="",
        metadata={"help": "file that saves the offsets from which a relaunched receiver continues; empty: none"},
    )
    encoding_errors: Literal["replace", "refuse"] = field(
        default="replace",
        validator=in_(("replace", "refuse")),
        metadata={"help": "a line that is not UTF-8: replace puts U+FFFD for malformed bytes, refuse drops it"},
    )


class FileReceiver(ThreadReceiver[str]):
    """Follows files.

    Args:
        options: files, start and line rules.
    """

    # Offsets of this receiver's last run in this process.
    _positions: list[Position] | None = None

    def __init__(self, options: FileReceiverOptions) -> None:
        self._options = options
        # Resolved here, on the driver: the worker has another working directory.
        self._path = os.path.abspath(options.path)  # noqa: PTH100  # a pattern
        self._offset_file = options.offset_file and str(Path(options.offset_file).absolute())
        self._rules = LineRules(options.max_line_bytes, options.encoding_errors == "refuse")
        self._errors = ErrorCounts()
        self._saving_fails = False

    def receive(self) -> None:
        options = self._options
        saved = self._positions
        if saved is None and self._offset_file:
            saved = positions.load(self._offset_file)
        watch = FileWatcher(
            self._path,
            saved,
            at_end=options.start == "end",
            max_line_bytes=options.max_line_bytes,
            ignored=[self._offset_file],
            report=self.reportError,
            monotonic_s=time.monotonic,
        )
        try:
            watch.scan()
            # Saved before anything is stored: a relaunched receiver must know where following began.
            self._save_offsets(watch)
            while not self.isStopped():
                if not self._read_all(watch) and self.wait(options.poll_interval):
                    break
                watch.scan()
        finally:
            watch.close()
            self._report_errors(is_end=True)

    def _read_all(self, watch: FileWatcher) -> bool:
        """Read from every file that has new bytes; return whether more can be read without waiting."""
        read: list[tuple[FollowedFile, LineChunk]] = []
        # With a rate limit, read the lines of one interval: they become one block, which is accepted as a whole.
        rate = self.rate_limit
        lines = math.inf if rate is None else max(1, int(rate * self.block_interval_ms / 1000))
        num_bytes = 0
        for file in watch.readable():
            restarts = file.restarts
            chunk = file.read(self._rules, None if math.isinf(lines) else int(lines))
            if file.restarts > restarts:
                self.reportError(f"{file.path} was truncated or rewritten: reading from the beginning")
            if chunk is None:
                continue
            read.append((file, chunk))
            lines -= chunk.num_lines
            num_bytes += chunk.num_bytes
            if lines < 1 or num_bytes >= _MANY_BYTES:
                break
        if read:
            self._store(watch, read)
        else:
            self._release_files(watch)
        self._report_errors()
        watch.close_idle()
        return lines < 1 or num_bytes >= _MANY_BYTES or watch.is_more or any(file.has_new_bytes for file, _ in read)

    def _release_files(self, watch: FileWatcher) -> None:
        """Stop following files that left their paths; nobody will complete their last lines."""
        leaving = watch.leaving()
        for file in leaving:
            chunk = file.read(self._rules, None, is_end=True)
            if chunk is not None:
                self._store(watch, [(file, chunk)])
            watch.drop(file)
        if leaving:
            self._save_offsets(watch)

    def _store(self, watch: FileWatcher, read: list[tuple[FollowedFile, LineChunk]]) -> None:
        """Store the lines, then advance the offsets.

        Raises:
            ReceiverStoppedError: the receiver stopped before the store; its next run reads the lines again.
        """
        columns = [chunk.column for _, chunk in read if chunk.num_lines]
        if columns:
            offsets = {file.path: file.offset + chunk.num_bytes for file, chunk in read}
            self.store_arrow(pa.table({"value": pa.chunked_array(columns)}), offsets)
        for file, chunk in read:
            file.commit()
            self._errors.add(self._rules.too_long, chunk.too_long)
            self._errors.add(self._rules.not_utf8, chunk.not_utf8)
        for file, _ in read:
            watch.was_read(file)
        self._save_offsets(watch)

    def _save_offsets(self, watch: FileWatcher) -> None:
        self._positions = watch.positions
        if not self._offset_file:
            return
        try:
            positions.save(self._offset_file, self._positions)
            self._saving_fails = False
        except OSError as error:
            if not self._saving_fails:
                self._saving_fails = True
                self.reportError(
                    f"offset_file {self._offset_file} cannot be written: {text_of(error)}; a relaunched receiver would "
                    "read again what is read from now on"
                )

    def _report_errors(self, *, is_end: bool = False) -> None:
        now_s = time.monotonic()
        due_s = self._errors.due_s(now_s)
        if due_s == 0 or (is_end and due_s is not None):
            self.reportError(self._errors.report(now_s))
