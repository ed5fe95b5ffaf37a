"""``LatestBatch``: the rows of a stream's last batch, for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import StreamingStateError
from penstock.spi import shown

if TYPE_CHECKING:
    from datetime import datetime

    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock import DataFrameStream


class LatestBatch:
    """An output operation that keeps the first rows of the last batch on the driver. Define it before the start.

    ``latest = LatestBatch(counts)`` in one cell, ``latest.toPandas()`` in any later one; a notebook shows ``latest`` as
    a table. A checkpoint contains no rows.

    Args:
        stream: the batches.
        n: maximum number of rows of a batch to keep.

    Raises:
        ValueError: ``n`` is not a whole number above zero.
    """

    def __init__(self, stream: DataFrameStream, n: int = 1000) -> None:
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"LatestBatch keeps a whole number of rows above zero, not {shown(n)}")
        self._num_rows = n
        # One value, which the job's thread replaces and other threads read.
        self._latest: tuple[datetime, pa.Table] | None = None
        stream.foreachDataFrame(self._keep)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_latest": None}

    @property
    def time(self) -> datetime | None:
        """The time of the last batch; ``None`` before the first."""
        return None if self._latest is None else self._latest[0]

    def toPandas(self) -> pd.DataFrame:
        """The rows of the last batch.

        Raises:
            StreamingStateError: no batch has run yet.
        """
        if self._latest is None:
            raise StreamingStateError("no batch with known columns has run yet: call it again after the next batch")
        return self._latest[1].to_pandas()

    def __repr__(self) -> str:
        if self._latest is None:
            return "<LatestBatch: no batch yet>"
        time, rows = self._latest
        return f"<LatestBatch {time}: {rows.num_rows} rows of {', '.join(rows.column_names)}>"

    def _repr_html_(self) -> str:
        text = repr(self)[1:-1]
        return f"<p>{text}</p>" if self._latest is None else f"<p>Batch {self.time}</p>{self.toPandas().to_html()}"

    def _keep(self, time: datetime, frame: DataFrame) -> None:
        self._latest = time, frame.limit(self._num_rows).toArrow()
