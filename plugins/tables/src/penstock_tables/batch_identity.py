"""The identity of a batch in a table, and the decisions that follow from what the table has saved. Pure.

A table saves, per output, the number of its newest writer, and per run its own number and its last batch. A fresh run
gets the next number with its first commit; from then on older runs are refused. So a fresh checkpoint continues an old
table, and of two programs of one name the older one stops, instead of each dropping the other's batches.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from attrs import frozen

from penstock import PenstockError

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
# The clocks of the hosts that commit differ by less.
_CLOCKS_DIFFER_MS = 86_400_000


class OutputOwnedError(PenstockError):
    """Another run writes into the table under the same application and output name."""


class UnknownBatchError(PenstockError):
    """The table's history no longer says whether a batch was written."""


@frozen
class BatchId:
    """A batch of one output.

    Attributes:
        application: the application's name.
        output: the output's name, unique within the application for each table.
        run: id of the run; a recovered run keeps it.
        time_ms: the batch time.
    """

    application: str
    output: str
    run: str
    time_ms: int

    @property
    def writer(self) -> str:
        """The name under which a table saves the output's batches."""
        return f"{self.application}/{self.output}"

    @property
    def file_prefix(self) -> str:
        """The beginning of the names of the batch's files."""
        return f"{_UNSAFE.sub('-', self.output)[:80]}-{self.time_ms}"

    @property
    def saved(self) -> str:
        """The text by which the history of a table identifies the batch."""
        return json.dumps([self.application, self.output, self.run, self.time_ms])

    @property
    def description(self) -> str:
        """The batch, for messages."""
        return f"batch {self.time_ms} of output {self.output!r} of application {self.application!r}"


@frozen
class Standing:
    """What a table has saved about an output, as one of its runs sees it.

    Attributes:
        newest: number of the newest writer; 0 for a table that the output has never written to.
        own: number of this run; ``None`` if it has never written.
        last_ms: the latest batch time of this run; -1 if it has never written.
    """

    newest: int = 0
    own: int | None = None
    last_ms: int = -1


def writer_number(standing: Standing, batch: BatchId, table: str) -> int:
    """The number under which a run writes.

    Raises:
        OutputOwnedError: a newer run writes under this name.
    """
    if standing.own is None:
        return standing.newest + 1
    if standing.own < standing.newest:
        raise newer_writer(batch, table, standing.newest, standing.own)
    return standing.own


def newer_writer(batch: BatchId, table: str, newest: int, own: int) -> OutputOwnedError:
    """The error for a run that is not, or no longer, the newest writer."""
    return OutputOwnedError(
        f"{batch.description} not written: the output has a newer writer on {table} (number {newest}; this run is "
        f"number {own}). Stop one of the two programs, or give one of them another application name or another name= "
        "of the output"
    )


def look_up(standing: Standing, batch: BatchId) -> Literal["new", "search"]:
    """Whether a batch is certainly new to the table, or the table's history decides."""
    return "new" if batch.time_ms > standing.last_ms else "search"


def check_absence(batch: BatchId, table: str, oldest_ms: int | None, *, is_whole: bool) -> None:
    """Check that a batch which a table's history does not list was not written.

    Args:
        batch: the batch.
        table: the table's name, for messages.
        oldest_ms: when the oldest commit was made that the history describes; ``None`` if it does not say.
        is_whole: whether the history describes every commit.

    Raises:
        UnknownBatchError: commits that are not described may have written the batch.
    """
    # Nobody commits a batch before its time.
    if is_whole or (oldest_ms is not None and oldest_ms + _CLOCKS_DIFFER_MS < batch.time_ms):
        return
    since = "nothing" if oldest_ms is None else f"only what was committed since {oldest_ms} ms"
    raise UnknownBatchError(
        f"{batch.description} not written: the history of {table} describes {since}, so it does not say whether an "
        "earlier attempt wrote the batch. Compare the table with the batch's input. Then either drop the batch (a "
        "fresh checkpoint directory) or write it under another name= of the output"
    )
