"""``BatchInput``: what the DataFrame of a batch is read from."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from pyspark import RDD

from penstock.plugins.specs import ArrowInput
from penstock.worker.fused import FusedChain


@frozen
class RowInput:
    """Columns that functions of the program turn into rows, all in one task.

    Attributes:
        source: the columns.
        chain: the functions.
    """

    source: ArrowInput
    chain: FusedChain


#: Columns as they are stored; rows made from such columns; or any other rows.
BatchInput = ArrowInput | RowInput | RDD[Any]
