"""Aggregation by key in Arrow: partial aggregates of a partition, and their combination. Runs in the tasks of a batch.

The aggregates are associative: partial aggregates of chunks, partitions and batches are combined in any order. They
are tables, whose columns are named by position: ``k0`` is the first column of the groups, ``a0`` the first partial
aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from attrs import frozen

from penstock import ConfigurationError, SchemaError
from penstock.spi import BlockRecords, shown
from penstock_dataframes.column_batches import columns_of, require_equal
from penstock_dataframes.conform import describe_schema

#: A column and a function of Arrow for its values.
Part: TypeAlias = tuple[str, str]

# The column of ``count`` that stands for whole records.
ALL = "*"
# For each aggregate, the functions of Arrow whose results are kept until all partitions are known.
_PARTS = {"sum": ("sum",), "count": ("count",), "min": ("min",), "max": ("max",), "mean": ("sum", "count")}
_SYNONYMS = {"avg": "mean"}
# The function that combines partial aggregates.
_COMBINE = {"sum": "sum", "count": "sum", "count_all": "sum", "min": "min", "max": "max"}
# A chunk that is aggregated at once, since each aggregation has a fixed cost.
_CHUNK_ROWS, _CHUNK_BYTES = 1 << 17, 8 << 20
# Groups of partial aggregates that are combined early, so that many chunks need no more memory than their groups.
_MAX_WAITING_GROUPS = 1 << 20


@frozen
class Aggregate:
    """A column of the result.

    Attributes:
        name: its name.
        column: the column whose values are aggregated; ``*`` for records.
        function: ``sum``, ``count``, ``min``, ``max`` or ``mean``.
    """

    name: str
    column: str
    function: str

    @classmethod
    def of(cls, name: str, column: object, function: object) -> Aggregate:
        """Check the arguments of an aggregate.

        Raises:
            ConfigurationError: the function does not exist, or cannot be applied to ``*``.
            TypeError: the column is not a name.
        """
        if not isinstance(column, str) or not isinstance(function, str):
            raise TypeError(
                f"agg takes the names of a column and of a function, such as total=('price', 'sum'); {name} is "
                f"{shown((column, function))}"
            )
        known = _SYNONYMS.get(function, function)
        if known not in _PARTS:
            raise ConfigurationError(f"agg has the functions {', '.join(_PARTS)}, and none named {function!r}")
        if column == ALL and known != "count":
            raise ConfigurationError(f"agg: {known} needs the name of a column; only count takes '*'")
        return cls(name, column, known)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The partial aggregates from which it is computed."""
        if self.column == ALL:
            return ((ALL, "count_all"),)
        return tuple((self.column, part) for part in _PARTS[self.function])


@frozen
class Aggregation:
    """The columns of the groups, and the aggregates of each group.

    Attributes:
        keys: the names of the columns of the groups; empty for one group of all records.
        aggregates: at least one.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The distinct partial aggregates, which several aggregates may share."""
        return tuple(dict.fromkeys(part for aggregate in self.aggregates for part in aggregate.parts))

    def partial(self, records: pa.Table) -> pa.Table:
        """The partial aggregates of records.

        Raises:
            SchemaError: a column does not exist, or Arrow cannot aggregate it.
        """
        columns = {f"k{n}": _comparable(_column(records, name)) for n, name in enumerate(self.keys)}
        columns |= {f"v{n}": _column(records, name) for n, (name, _) in enumerate(self.parts) if name != ALL}
        functions = [("" if name == ALL else f"v{n}", function) for n, (name, function) in enumerate(self.parts)]
        # Without any column, a table would have no number of rows.
        table = pa.table(columns or {"rows": pa.nulls(records.num_rows)})
        return self._grouped(table, functions, records.schema)

    def combined(self, partials: list[pa.Table]) -> pa.Table:
        """Combine partial aggregates, at least one table.

        Raises:
            SchemaError: the tables have different columns, because the records have.
        """
        if len(partials) == 1:
            return partials[0]
        for table in partials:
            require_equal(table.schema, partials[0].schema, "the groups and aggregates of partitions or batches have")
        functions = [(f"a{n}", _COMBINE[function]) for n, (_, function) in enumerate(self.parts)]
        return self._grouped(pa.concat_tables(partials), functions, partials[0].schema)

    def finished(self, table: pa.Table) -> pa.Table:
        """The result: the columns of the groups, and the aggregates."""
        columns = {key: table.column(f"k{n}") for n, key in enumerate(self.keys)}
        for aggregate in self.aggregates:
            values = [table.column(f"a{self.parts.index(part)}") for part in aggregate.parts]
            columns[aggregate.name] = values[0] if len(values) == 1 else _quotient(*values)
        return pa.table(columns)

    def _grouped(self, table: pa.Table, functions: list[Part], schema: pa.Schema) -> pa.Table:
        """Group by the columns ``k…``; the result of the n-th function is named ``a<n>``."""
        keys = [f"k{n}" for n in range(len(self.keys))]
        try:
            # One thread: Spark runs as many tasks as there are processors.
            grouped = table.group_by(keys, use_threads=False).aggregate(
                [([] if function == "count_all" else name, function) for name, function in functions]
            )
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())
            raise SchemaError(f"cannot aggregate columns ({describe_schema(schema)}): {reason}") from None
        names = [function if function == "count_all" else f"{name}_{function}" for name, function in functions]
        columns = {key: grouped.column(key) for key in keys}
        return pa.table(columns | {f"a{n}": grouped.column(name) for n, name in enumerate(names)})


def _column(records: pa.Table, name: str) -> pa.ChunkedArray:
    count = records.schema.names.count(name)
    if count != 1:
        what = "there is no column" if not count else f"{count} columns are named"
        raise SchemaError(f"{what} {name!r}: the columns are ({describe_schema(records.schema)})")
    return records.column(name)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column's values: every chunk may have a dictionary of its own, and Arrow would compare their indices."""
    return column.cast(column.type.value_type) if kinds.is_dictionary(column.type) else column


def _quotient(total: pa.ChunkedArray, count: pa.ChunkedArray) -> pa.ChunkedArray:
    # The total of no values is null.
    return pc.call_function("divide", [total.cast(pa.float64()), count.cast(pa.float64())])


@frozen
class PartialAggregates:
    """Partition function from records to at most one table of partial aggregates, in a pair with the key ``None``."""

    aggregation: Aggregation

    def __call__(self, _index: int, records: Iterable[Any]) -> Iterator[tuple[None, pa.Table]]:
        """Aggregate a partition, chunk by chunk."""
        combined, waiting = self.aggregation.combined, list[pa.Table]()
        for chunk in _chunks(columns_of(records)):
            waiting.append(self.aggregation.partial(chunk))
            if sum(table.num_rows for table in waiting) > _MAX_WAITING_GROUPS:
                waiting = [combined(waiting)]
        if waiting:
            yield None, combined(waiting)


@frozen
class CombinedAggregates:
    """Partition function from tables of partial aggregates to the columns of the result."""

    aggregation: Aggregation

    def __call__(self, _index: int, groups: Iterable[tuple[None, Iterable[pa.Table]]]) -> BlockRecords:
        """Combine all tables."""
        return BlockRecords(self._batches(groups))

    def _batches(self, groups: Iterable[tuple[None, Iterable[pa.Table]]]) -> Iterator[pa.RecordBatch]:
        for _key, partials in groups:
            yield from self.aggregation.finished(self.aggregation.combined(list(partials))).to_batches()


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join consecutive record batches of one schema, without a copy; leave out empty ones."""
    waiting: list[pa.RecordBatch] = []
    rows = num_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if waiting and not batch.schema.equals(waiting[0].schema):
            yield pa.Table.from_batches(waiting)
            waiting, rows, num_bytes = [], 0, 0
        waiting.append(batch)
        rows, num_bytes = rows + batch.num_rows, num_bytes + batch.nbytes
        if rows >= _CHUNK_ROWS or num_bytes >= _CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, num_bytes = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
