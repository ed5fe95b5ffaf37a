"""``DataFrameStream``: the API of a stream whose batches are DataFrames, which a plugin implements.

Programs, type checkers and the documentation see these classes. ``DStream.toDF`` asks the hook ``dataframes`` for an
instance. The operators are those of Spark's DataFrame, with its arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from penstock.graph.node import OnDriver

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from penstock.graph.dstream import DStream


class DataFrameStream(OnDriver, ABC):
    """A sequence of DataFrames, one per batch. Programs get it from ``DStream.toDF``.

    Operators are applied to every batch when an output runs. An error that Spark reports, such as an unknown column,
    fails the batch and names the line of the program. An argument of a wrong type raises a TypeError.
    """

    # -- operators --

    @abstractmethod
    def select(self, *cols: Column | str | list[Column | str]) -> DataFrameStream:
        """Select columns or expressions."""

    @abstractmethod
    def selectExpr(self, *expr: str) -> DataFrameStream:
        """Select SQL expressions."""

    @abstractmethod
    def where(self, condition: Column | str) -> DataFrameStream:
        """Select the rows for which a condition is true."""

    @abstractmethod
    def filter(self, condition: Column | str) -> DataFrameStream:
        """Select the rows for which a condition is true; the same as ``where``."""

    @abstractmethod
    def withColumn(self, colName: str, col: Column) -> DataFrameStream:
        """Add a column, or replace the one of that name."""

    @abstractmethod
    def drop(self, *cols: Column | str) -> DataFrameStream:
        """Leave out columns; names that do not exist are ignored, as in Spark."""

    @abstractmethod
    def groupBy(self, *cols: Column | str | list[Column | str]) -> GroupedDataFrameStream:
        """Group the rows of every batch; without columns, all of them are one group."""

    @abstractmethod
    def join(
        self,
        other: DataFrame | DataFrameStream | Callable[[], DataFrame],
        on: str | list[str] | Column | list[Column] | None = None,
        how: str | None = None,
    ) -> DataFrameStream:
        """Join every batch with a DataFrame.

        Args:
            other: a DataFrame; a function that returns one, called for every batch, which a program with checkpoints
                needs; or another stream, whose batch of the same time is joined.
            on: the join columns or condition, as in Spark.
            how: the join type, as in Spark; ``inner`` by default.
        """

    @abstractmethod
    def sql(self, query: str) -> DataFrameStream:
        """Run a query on every batch, in which ``batch`` is the batch: ``SELECT count(*) FROM batch``.

        Views and functions of the program's SparkSession may be used beside it; a view of its own named ``batch`` may
        not. A command, such as INSERT, fails the batch.
        """

    @abstractmethod
    def transform(self, func: Callable[[DataFrame], DataFrame]) -> DataFrameStream:
        """Turn every DataFrame into another one, with any of Spark's operators. ``func`` runs on the driver.

        A function that returns no DataFrame fails the batch.
        """

    # -- ends --

    @overload
    def foreachDataFrame(self, func: Callable[[DataFrame], object]) -> None: ...

    @overload
    def foreachDataFrame(self, func: Callable[[datetime, DataFrame], object]) -> None: ...

    @abstractmethod
    def foreachDataFrame(self, func: Callable[..., object]) -> None:
        """Call ``func(df)`` or ``func(time, df)`` with every DataFrame: an output operation."""

    @abstractmethod
    def foreachBatch(self, func: Callable[[DataFrame, int], object]) -> None:
        """Call ``func(df, batch_id)``, as in Structured Streaming; the id is the batch time in ms: an output operation.

        A batch that runs again after a recovery has the same id, and a later batch has a larger one.
        """

    @abstractmethod
    def pprint(self, n: int = 10) -> None:
        """Print the first ``n`` rows of every DataFrame as a table: an output operation."""

    @abstractmethod
    def rows(self) -> DStream[Row]:
        """The rows of every DataFrame as a DStream.

        The plan is created with the batch. With adaptive query execution, Spark then runs the shuffles of an
        aggregation or a join before the batch's job starts.
        """


class GroupedDataFrameStream(OnDriver, ABC):
    """The groups of every batch; ``agg`` turns them into rows again."""

    @abstractmethod
    def agg(self, *exprs: Column | dict[str, str]) -> DataFrameStream:
        """Aggregate every group: expressions such as ``count("*")``, or a dictionary such as ``{"price": "max"}``."""

    @abstractmethod
    def count(self) -> DataFrameStream:
        """Count the rows of every group, in a column ``count``."""


class GroupedDStream(OnDriver, ABC):
    """The groups of a stream's records by the values of columns. Programs get it from ``DStream.groupBy``."""

    @abstractmethod
    def window(self, windowDuration: float, slideDuration: float | None = None) -> GroupedDStream:
        """Group the records of the last ``windowDuration`` seconds, every ``slideDuration`` seconds.

        Every batch is aggregated once, and its groups are merged into each window.
        """

    @abstractmethod
    def agg(self, *exprs: dict[str, str], **aggregates: tuple[str, str]) -> DStream[Any]:
        """Aggregate every group, with ``sum``, ``count``, ``min``, ``max`` or ``mean``.

        Args:
            exprs: a function per column, as in Spark: ``{"price": "max"}`` gives the column ``max(price)``.
            aggregates: new column, and the column and the function of its values: ``total=("price", "sum")``.

        The column ``*`` counts records. The result has the columns of the groups before the others.
        """

    @abstractmethod
    def count(self) -> DStream[Any]:
        """Count the records of every group, in a column ``count``."""
