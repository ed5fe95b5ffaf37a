"""``Table``: what an output needs of a kind of table. The driver opens it once per batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa
from attrs import frozen

from penstock import PenstockError
from penstock_tables.batch_identity import BatchId, Standing
from penstock_tables.partition_writer import DataFile, PartitionWriter
from penstock_tables.table_schemas import TableSchemaError


@frozen
class Commit:
    """A batch to add to a table: its files, and the number under which its run writes."""

    batch: BatchId
    number: int
    files: Sequence[DataFile]

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(file.rows for file in self.files)


class TableWriteError(PenstockError):
    """A batch was not written."""


class CommitConflictError(TableWriteError):
    """Other writers committed first, again and again."""


class MissingTableError(TableSchemaError):
    """The table does not exist, and there is no schema with which to create it."""


class OpenTable(ABC):
    """A table as it was when it was opened."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The table's columns."""

    @abstractmethod
    def standing(self, batch: BatchId) -> Standing:
        """What the table has saved about an output and this run."""

    @abstractmethod
    def has(self, batch: BatchId) -> bool:
        """Whether the table's history has a batch; raises ``UnknownBatchError`` if it no longer says."""

    @abstractmethod
    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, whose values are null in the rows so far."""

    @abstractmethod
    def writer(self, batch: BatchId, schema: pa.Schema, number: int, dead_letter: str | None) -> PartitionWriter:
        """The function that writes a partition of a batch in a task."""

    @abstractmethod
    def commit(self, commit: Commit) -> None:
        """Add the batch's rows in one transaction, together with the batch's identity.

        Raises:
            CommitConflictError: another writer has changed the table since it was opened; nothing was added. The
                output looks again, and repeats the commit.
        """


class Table(ABC):
    """The settings of a table. Pickled with the program, so it holds no connection."""

    #: Whether tasks commit, each in a transaction of its own, so that a batch is written by a single task.
    commits_in_task: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The table's location, without secrets."""

    @property
    def dataset(self) -> str:
        """The table's URI as OpenLineage names it; empty where only the catalog knows it."""
        return ""

    @property
    def place(self) -> object:
        """What identifies the table's store as long as it is not replaced; ``None`` where nothing does."""
        return None

    @abstractmethod
    def open(self, schema: pa.Schema | None) -> OpenTable:
        """Open the table; create it with these columns if it is missing.

        Raises:
            MissingTableError: the table is missing and ``schema`` is ``None``.
        """
