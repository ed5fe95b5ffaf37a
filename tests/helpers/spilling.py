"""Spills of PySpark's merger in a test."""

from __future__ import annotations

from typing import Any

import pyspark.shuffle
import pytest


def into_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each spill write 5 files instead of 59, which take most of the time."""
    make = pyspark.shuffle.ExternalMerger.__init__

    def with_few_files(merger: Any, *arguments: Any, **keywords: Any) -> None:
        make(merger, *arguments, **keywords)
        merger.partitions = 5

    monkeypatch.setattr(pyspark.shuffle.ExternalMerger, "__init__", with_few_files)
