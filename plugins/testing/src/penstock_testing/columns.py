"""Compares rows without the columns that a source assigns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def without_columns(record: Any, names: Sequence[str]) -> Any:
    """A row without some columns; the value of its column if one is left. Other records are returned as they are."""
    if not names or not hasattr(record, "__fields__"):
        return record
    from pyspark.sql import Row

    kept = {name: record[name] for name in record.__fields__ if name not in names}
    return next(iter(kept.values())) if len(kept) == 1 else Row(**kept)
